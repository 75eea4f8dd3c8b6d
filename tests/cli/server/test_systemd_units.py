"""Units of systemd that leave jobs alone, with every word quoted as systemd reads it."""

from pathlib import Path

import pytest

from grus.cli.server.service_checks import backup_folder, settings, words_of
from grus.cli.server.systemd_units import BACKUP, SERVER, TIMER, Service, command, units, word


def service(**more: object) -> Service:
    return Service(python="/opt/grus/bin/python", user="grus", **more)  # type: ignore[arg-type]  # its own fields


def written(folder: Path, one: Service) -> Path:
    for name, text in units(one).items():
        (folder / name).write_text(text)
    return folder


def test_jobs_outlive_the_server(tmp_path: Path) -> None:
    found = settings(written(tmp_path, service()) / SERVER)
    assert found["KillMode"] == ["process"]
    assert found["OOMPolicy"] == ["continue"]
    assert found["TasksMax"] == ["infinity"]
    assert found["User"] == ["grus"]
    assert found["WantedBy"] == ["multi-user.target"]


def test_a_users_own_service_names_no_account(tmp_path: Path) -> None:
    found = settings(written(tmp_path, Service(python="/p", user="")) / SERVER)
    assert "User" not in found
    assert found["WantedBy"] == ["default.target"]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("--port", "--port"),
        ("a b", '"a b"'),
        ("", '""'),
        ('say "x"', '"say \\"x\\""'),
        ("100%", '"100%%"'),
        ("back\\slash", '"back\\\\slash"'),
        ("a;b", '"a;b"'),
        ("it's", '"it\'s"'),
    ],
)
def test_words_are_quoted_for_systemd(text: str, quoted: str) -> None:
    assert word(text) == quoted
    assert words_of(quoted) == [text]


def test_a_command_has_no_variables_of_systemd() -> None:
    assert command(service(), "up", "--tls-cert", "/a$b") == (
        "/opt/grus/bin/python -m grus.cli.main up --tls-cert /a$$b"
    )


def test_options_and_environment_reach_the_server(tmp_path: Path) -> None:
    one = service(options=("--host", "gpu.lab"), environment={"GRUS_HOME": "/srv/my grus"})
    found = settings(written(tmp_path, one) / SERVER)
    assert words_of(found["ExecStart"][0])[3:] == ["up", "--foreground", "--host", "gpu.lab"]
    assert words_of(found["Environment"][0]) == ["GRUS_HOME=/srv/my grus"]


def test_backups_are_scheduled_with_logs_where_a_folder_is_named(tmp_path: Path) -> None:
    assert set(units(service())) == {SERVER}
    folder = written(tmp_path, service(backups=Path("/my backups"), every="hourly", keep=3))
    assert backup_folder(folder) == Path("/my backups")
    found = settings(folder / BACKUP)["ExecStart"][0]
    assert words_of(found)[3:] == ["backup", "/my backups", "--keep", "3", "--logs"]
    assert settings(folder / TIMER)["OnCalendar"] == ["hourly"]
    assert settings(folder / TIMER)["Persistent"] == ["true"]
