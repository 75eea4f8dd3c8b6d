"""`grus doctor` on a server as a service: its unit, its backups, its certificate."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

import grus as grus_package
from grus.cli import connection
from grus.cli.server import doctor, service_checks
from grus.cli.server.doctor import FAIL, OK, WARN
from grus.cli.server.service_checks import check_backups, check_certificate, check_service, runs_as_service
from grus.cli.server.systemd_units import SERVER, Service, units
from grus.model.errors import Unreachable
from grus.model.identifiers import UserName
from grus.model.interfaces import USERS, User
from grus.sdk.state_paths import GrusPaths, places
from grus.server.backup.create import back_up
from grus.server.backup.rotation import name_of
from grus.server.runtime.last_address import remember
from grus.store.sqlite import SqliteStore
from tests.cli.fake import FakeClient
from tests.server.certificates import make_certificate


@pytest.fixture
def at(tmp_path: Path) -> GrusPaths:
    return places({"GRUS_HOME": str(tmp_path / "home")})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of units, in place of systemd's own."""
    (tmp_path / "units").mkdir()
    monkeypatch.setattr(service_checks, "unit_folder", lambda: tmp_path / "units")
    monkeypatch.setattr(service_checks, "has_systemd", lambda: False)
    return tmp_path / "units"


def write(folder: Path, at: GrusPaths, **more: object) -> None:
    wanted = Service(python=sys.executable, user="root", environment={"GRUS_HOME": str(at.config)}, **more)  # type: ignore[arg-type]  # its own fields
    for name, text in units(wanted).items():
        (folder / name).write_text(text)


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / SERVER).read_text()
    assert old in text
    (folder / SERVER).write_text(text.replace(old, new))


def test_a_unit_that_would_end_jobs_is_a_failure(at: GrusPaths, folder: Path) -> None:
    assert check_service(at).state == OK  # there is none
    write(folder, at)
    assert check_service(at).state == OK
    change(folder, "KillMode=process", "KillMode=mixed")
    found = check_service(at)
    assert (found.state, "jobs" in found.text) == (FAIL, True)


def test_a_unit_of_an_interpreter_that_is_gone_is_a_failure(at: GrusPaths, folder: Path) -> None:
    write(folder, at)
    change(folder, sys.executable, "/nowhere/python")
    assert check_service(at).state == FAIL


def test_a_unit_of_another_state_is_a_warning(at: GrusPaths, folder: Path, tmp_path: Path) -> None:
    write(folder, places({"GRUS_HOME": str(tmp_path / "other")}))
    assert check_service(at).state == WARN


def test_a_command_without_a_server_names_the_service_of_another_state(
    at: GrusPaths, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, at)
    monkeypatch.delenv("GRUS_SERVER", raising=False)
    monkeypatch.setenv("GRUS_HOME", str(tmp_path / "other"))
    with pytest.raises(Unreachable, match=f"set GRUS_HOME={at.config}"):
        connection.connect()
    monkeypatch.setenv("GRUS_HOME", str(at.config))
    with pytest.raises(Unreachable) as refused:
        connection.connect()
    assert "set GRUS_HOME" not in str(refused.value)


def test_systemd_is_asked_about_the_unit(at: GrusPaths, folder: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze of Debian's package systemd")
    write(folder, at)
    change(folder, "OOMPolicy=continue", "OOMPolicy=perhaps")
    found = check_service(at)
    assert (found.state, "OOM policy" in found.text) == (WARN, True)


def test_backups_that_are_missing_or_old_are_a_warning(at: GrusPaths, folder: Path, tmp_path: Path) -> None:
    series = tmp_path / "series"
    assert check_backups(at).state == OK  # there is nothing to back up
    SqliteStore(at.state / "grus.db").close()
    assert "none scheduled" in check_backups(at).text
    write(folder, at, backups=series)
    assert check_backups(at).state == WARN
    for age, state in ((3 * 86400.0, WARN), (3600.0, OK)):
        made = time.time() - age
        back_up(at, series / name_of(made), made)
        assert check_backups(at).state == state


def test_a_server_in_the_clear_for_other_machines_is_named(at: GrusPaths) -> None:
    at.state.mkdir(parents=True, exist_ok=True)
    for address, state in (("http://127.0.0.1:7600", OK), ("http://alias.lab:7600", WARN)):
        at.server_file.write_text(json.dumps({"address": address, "pid": 1, "started_at": 0.0}))
        assert check_certificate(at).state == state


def test_a_certificate_that_ends_soon_or_is_gone_is_named(at: GrusPaths, tmp_path: Path) -> None:
    assert check_certificate(at).state == OK
    for days, state in ((300, OK), (5, WARN)):
        certificate, key = make_certificate(tmp_path, "DNS:gpu.lab", days=days)
        remember(at, port=7600, host="gpu.lab", certificate=certificate, key=key)
        assert check_certificate(at).state == state
    certificate.unlink()
    assert check_certificate(at).state == FAIL


def test_a_shared_server_without_scheduled_backups_is_a_warning(at: GrusPaths, folder: Path) -> None:
    store = SqliteStore(at.state / "grus.db")
    assert (check_backups(at).state, folder.exists()) == (OK, True)
    for name in ("ada", "grace"):
        store.put(USERS, User(name=UserName(name))).result()
    store.close()
    found = check_backups(at)
    assert (found.state, "--backups" in found.fix) == (WARN, True)


def test_a_server_with_tls_without_scheduled_backups_is_a_warning(
    at: GrusPaths, folder: Path, tmp_path: Path
) -> None:
    SqliteStore(at.state / "grus.db").close()
    certificate, key = make_certificate(tmp_path, "DNS:gpu.lab")
    remember(at, port=7600, host="gpu.lab", certificate=certificate, key=key)
    assert (check_backups(at).state, folder.exists()) == (WARN, True)


def test_a_unit_of_this_state_runs_it_where_systemd_runs(
    at: GrusPaths, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, at)
    assert not runs_as_service(at)  # systemd does not run
    monkeypatch.setattr(service_checks, "has_systemd", lambda: True)
    assert runs_as_service(at)
    assert not runs_as_service(places({"GRUS_HOME": str(tmp_path / "other")}))
    (folder / SERVER).unlink()
    assert not runs_as_service(at)


def test_doctor_restarts_another_version_as_the_service(
    at: GrusPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = FakeClient()
    monkeypatch.setattr(connection, "connect", lambda **_: client)
    monkeypatch.setattr(grus_package, "__version__", "9.9.9")
    for service, words in ((True, "restart grus"), (False, "grus down && grus up")):
        monkeypatch.setattr(service_checks, "runs_as_service", lambda _, service=service: service)
        assert words in doctor._server(at).fix
