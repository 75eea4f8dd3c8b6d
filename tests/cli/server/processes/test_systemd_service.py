"""The server as a service: systemd accepts its units, and jobs outlive its restart and its upgrade."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grus as package
from grus.cli.server import service_checks
from grus.cli.server.service_checks import scheduled, settings, words_of
from grus.cli.server.systemd_units import Schedule
from grus.sdk.state_paths import GrusPaths, running
from grus.store import durable_files
from tests.cli.real import RealGrus
from tests.server.certificates import make_certificate
from tests.server.process import PATIENCE, eventually

OLD = "0.0.9"
OPTIONS = ("--", "--virtual", "1x2x1GB", "--port", "0")


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path / "home")
    yield command
    command.down()


class Unit:
    """Runs the commands of the units as systemd does: with their environment, and KillMode=process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self, name: str) -> tuple[list[str], dict[str, str]]:
        unit = settings(self._folder / name)
        pairs = [word.partition("=") for line in unit["Environment"] for word in words_of(line)]
        return words_of(unit["ExecStart"][0]), {name: value for name, _, value in pairs}

    def start(self, at: GrusPaths, **more: str) -> None:
        command, env = self._command("grus.service")
        self._process = process = subprocess.Popen(
            command, env={**env, **more}, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )

        def up() -> bool:
            assert process.poll() is None
            found = running(at)
            return found is not None and found.pid == process.pid

        eventually(up, "the server has announced itself")

    def run(self, name: str) -> None:
        command, env = self._command(name)
        subprocess.run(command, env=env, check=True, capture_output=True, cwd="/")

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE) == 0


def installed(grus: RealGrus, *words: str) -> Path:
    folder = grus.home / "units"
    grus("service", "install", "--units", str(folder), *words, PATH=os.environ["PATH"])
    return folder


def test_systemd_accepts_the_units(grus: RealGrus) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze of Debian's package systemd")
    folder = installed(grus, "--backups", str(grus.home / "my backups"), *OPTIONS)
    assert service_checks.verified(folder) == ""
    unit = folder / "grus.service"
    unit.write_text(unit.read_text().replace("KillMode=process", "KillMode=sometimes"))
    assert "kill mode" in service_checks.verified(folder)


def test_jobs_go_on_while_the_service_restarts_and_are_in_its_backups(grus: RealGrus) -> None:
    at = GrusPaths(grus.home, grus.home / "state")
    backups = grus.home / "backups"
    unit = Unit(installed(grus, "--backups", str(backups), "--keep", "2", *OPTIONS))
    unit.start(at)
    job = grus("run", "-d", "--name", "lasting", "--", "sh", "-c", "echo begun; sleep 600").stdout.strip()
    eventually(lambda: "begun" in grus("logs", job).stdout, "it has begun")
    pid = grus.json("describe", job)["workers"][0]["pid"]
    unit.stop()
    os.kill(pid, 0)
    unit.start(at)
    found = grus.json("describe", job)
    assert (found["job"]["phase"], found["job"]["attempt"], found["workers"][0]["pid"]) == ("running", 1, pid)
    unit.run("grus-backup.service")
    (made,) = backups.iterdir()
    assert [path.read_bytes() for path in made.glob("logs/*/*/*")] == [b"begun\n"]
    told = grus("service", "status", "--units", str(grus.home / "units")).stdout
    assert made.name in told
    grus.down()
    unit.stop()
    shutil.rmtree(at.state)
    grus("restore", str(made))
    assert (at.state / "pool").read_text() == "1x2x1GB"
    unit.start(at)
    assert grus("logs", job).stdout.startswith("begun")
    grus.down()
    unit.stop()


def test_jobs_go_on_when_a_new_version_takes_over(grus: RealGrus, tmp_path: Path) -> None:
    at = GrusPaths(grus.home, grus.home / "state")
    unit = Unit(installed(grus, *OPTIONS))
    old = earlier_version(tmp_path / "old")
    unit.start(at, PYTHONPATH=str(old))
    assert grus.json("status")["version"] == OLD
    assert {one["check"]: one for one in checks(grus)}["server"]["state"] == "warn"
    go = grus.work / "go"
    script = f"echo begun; while [ ! -e {go} ]; do sleep 0.1; done; echo done"
    job = grus("run", "-d", "--name", "lasting", "--", "sh", "-c", script).stdout.strip()
    waits = grus("run", "-d", "--name", "waits", "--gpu", "2", "--", "true").stdout.strip()
    eventually(lambda: "begun" in grus("logs", job).stdout, "it has begun")
    pid = grus.json("describe", job)["workers"][0]["pid"]
    unit.stop()
    shutil.rmtree(old)  # as an installer does
    unit.start(at)
    assert grus.json("status")["version"] == package.__version__
    found = grus.json("describe", job)
    assert (found["job"]["phase"], found["job"]["attempt"], found["workers"][0]["pid"]) == ("running", 1, pid)
    go.touch()
    for one in (job, waits):
        succeeds(grus, one)
    assert grus("logs", job).stdout.split() == ["begun", "done"]
    unit.stop()


def succeeds(grus: RealGrus, job: str) -> None:
    eventually(lambda: grus.json("describe", job)["job"]["phase"] == "succeeded", f"{job} succeeds")


def checks(grus: RealGrus) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(grus("doctor", "-o", "json", code=None).stdout)
    return found


def earlier_version(folder: Path) -> Path:
    """A copy of Grus that calls itself an earlier version."""
    source = Path(package.__file__).parent
    shutil.copytree(source, folder / "grus", ignore=shutil.ignore_patterns("__pycache__"))
    init = folder / "grus" / "__init__.py"
    init.write_text(init.read_text().replace(f'"{package.__version__}"', f'"{OLD}"'))
    return folder


def test_options_that_up_does_not_know_are_refused(grus: RealGrus) -> None:
    said = grus("service", "install", "--units", str(grus.home / "units"), "--", "--prot", "1", code=2).stderr
    assert "--prot" in said
    assert not (grus.home / "units").exists()


def test_uninstall_removes_the_units_and_nothing_else(grus: RealGrus) -> None:
    folder = installed(grus, "--backups", str(grus.home / "backups"))
    (folder / "other.service").touch()
    link = folder / "multi-user.target.wants" / "grus.service"  # as `systemctl enable` makes it
    link.parent.mkdir()
    link.symlink_to(folder / "grus.service")
    grus("service", "uninstall", "--units", str(folder))
    assert not link.is_symlink()
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["other.service"]
    grus("service", "uninstall", "--units", str(folder), code=4)


def test_the_service_of_another_state_is_not_replaced(grus: RealGrus, tmp_path: Path) -> None:
    folder = installed(grus)
    before = (folder / "grus.service").read_text()
    other = RealGrus(tmp_path / "other")
    said = other("service", "install", "--units", str(folder), code=1).stderr
    assert f"runs the server of {grus.home / 'state'}" in said
    assert (folder / "grus.service").read_text() == before


def test_the_interpreter_of_the_unit_is_this_one(grus: RealGrus) -> None:
    found = settings(installed(grus) / "grus.service")["ExecStart"][0]
    assert words_of(found)[0] == sys.executable


def test_a_second_installation_keeps_the_scheduled_backups(grus: RealGrus) -> None:
    backups = grus.home / "backups"
    folder = installed(grus, "--backups", str(backups), "--every", "weekly", "--keep", "3")
    said = grus("service", "install", "--units", str(folder)).stdout
    assert f"weekly, the newest 3 in {backups}" in said
    assert scheduled(folder) == Schedule(backups, "weekly", 3)
    installed(grus, "--keep", "5")
    assert scheduled(folder) == Schedule(backups, "weekly", 5)


def test_scheduled_backups_are_removed_only_by_name(grus: RealGrus) -> None:
    folder = installed(grus, "--backups", str(grus.home / "backups"))
    done = grus.json("service", "install", "--units", str(folder), "--backups", "none")
    assert done["removed"] == ["grus-backup.timer", "grus-backup.service"]
    assert [path.name for path in folder.iterdir()] == ["grus.service"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--every", "hourly"), "--every"),
        (("--keep", "3"), "--keep"),
        (("--backups", "none", "--keep", "3"), "--keep"),
        (("--backups", "/dev/null/x"), "--backups"),
    ],
)
def test_backups_that_cannot_be_are_refused(grus: RealGrus, words: tuple[str, ...], name: str) -> None:
    said = grus("service", "install", "--units", str(grus.home / "units"), *words, code=2).stderr
    assert f"{name}: " in said
    assert not (grus.home / "units").exists()


def test_backups_inside_the_state_are_refused(grus: RealGrus) -> None:
    inside = str(grus.home / "state" / "backups")
    said = grus("service", "install", "--units", str(grus.home / "units"), "--backups", inside, code=2).stderr
    assert "lies inside the state" in said


def test_a_schedule_that_systemd_does_not_know_is_refused(grus: RealGrus) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze of Debian's package systemd")
    words = ("--backups", str(grus.home / "backups"), "--every", "sometimes")
    said = grus("service", "install", "--units", str(grus.home / "units"), *words, code=2).stderr
    assert "--every: is no schedule of systemd" in said


def test_paths_of_options_are_absolute_in_the_unit(grus: RealGrus) -> None:
    make_certificate(grus.work, "DNS:gpu.lab")
    tls = ("--tls-cert", "tls.crt", "--tls-key", "tls.key")
    folder = installed(grus, "--", "--host", "gpu.lab", *tls)
    line = words_of(settings(folder / "grus.service")["ExecStart"][0])
    at = line.index("--tls-cert")
    assert line[at : at + 4] == [
        "--tls-cert",
        str(grus.work / "tls.crt"),
        "--tls-key",
        str(grus.work / "tls.key"),
    ]
    assert line[line.index("--host") + 1] == "gpu.lab"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "other.lab", "--tls-cert", "tls.crt", "--tls-key", "tls.key"), "--host: is not among"),
        (
            ("--host", "gpu.lab", "--tls-cert", "none.crt", "--tls-key", "tls.key"),
            "--tls-cert: names no file",
        ),
        (("--host", "gpu.lab"), "other machines can reach this address"),
        (("--virtual", "2x"), "--virtual: "),
    ],
)
def test_options_that_up_would_refuse_are_refused(
    grus: RealGrus, options: tuple[str, ...], message: str
) -> None:
    make_certificate(grus.work, "DNS:gpu.lab")
    done = grus("service", "install", "--units", str(grus.home / "units"), "--", *options, code=2)
    assert message in done.stderr
    assert not (grus.home / "units").exists()


def test_the_state_is_shown_and_a_closed_one_is_a_warning(
    grus: RealGrus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_files, "closed_folder", lambda _: Path("/root"))
    done = grus("service", "install", "--units", str(grus.home / "units"))
    assert str(grus.home / "state") in done.stdout
    assert ("cannot pass /root" in done.stderr) is (os.geteuid() == 0)


def test_up_does_not_start_a_server_beside_the_service(
    grus: RealGrus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_checks, "runs_as_service", lambda _: True)
    said = grus("up", "--virtual", "1x1x1GB", code=1).stderr
    assert "grus.service is installed" in said
    assert "systemctl" in said
    assert "start grus" in said
    assert not (grus.home / "state").exists()


def test_a_bad_virtual_pool_is_named_as_the_option(grus: RealGrus) -> None:
    said = grus.up("--virtual", "2x", code=2)
    assert "--virtual: " in said
    assert "its log" not in said
