"""A run of the tests leaves nothing behind: at its end, after Ctrl-C, and after a kill and another run."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runs import network
from tests.runs.leftovers import mark_of, processes
from tests.runs.plugin import LEFT_BEHIND
from tests.runs.record import VARIABLE, load
from tools.kubernetes.processes import Mark

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 300.0
PASSES = "def test_passes(): pass\n"
DETACHES = """
import os, pathlib, subprocess, tempfile, time
def test_leaves_a_daemon(tmp_path):
    command = ["sh", "-c", "echo $$ > $0.new; mv $0.new $0; exec sleep 1000", os.environ["PIDS"] + "/daemon"]
    subprocess.Popen(["setsid", "--fork", *command], stdin=subprocess.DEVNULL).wait()
    os.chdir(tempfile.mkdtemp())
    pathlib.Path("closed").mkdir()
    pathlib.Path("closed", "file").touch()
    pathlib.Path("closed").chmod(0)
    while not pathlib.Path(os.environ["PIDS"], "daemon").exists(): time.sleep(0.01)
    pathlib.Path(os.environ["PIDS"], "ready").touch()
"""
WAITS = f"{DETACHES}    time.sleep(1000)\n"
PARALLEL = pytest.mark.parametrize("parallel", [(), ("-n", "1")], ids=["alone", "parallel"])
NEEDS_A_NETWORK = pytest.mark.skipif(
    not network.number("self") or network.number("self") == network.number(1) or os.geteuid() != 0,
    reason="only root can give a run its own network",
)


class Suite:
    """Runs of tests of their own, under our rules, with a folder in place of /tmp."""

    def __init__(self, folder: Path) -> None:
        self.tests, self.temporary, self.pids = folder / "tests", folder / "tmp", folder / "pids"
        for one in (self.tests, self.temporary, self.pids):
            one.mkdir()
        shutil.copy(ROOT / "tests" / "conftest.py", self.tests)

    def start(self, tests: str, *words: str) -> subprocess.Popen[str]:
        (self.tests / "test_some.py").write_text(tests)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", VARIABLE))
        }
        own = {"TMPDIR": str(self.temporary), "PIDS": str(self.pids), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "."],
            cwd=self.tests,
            env={**kept, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, tests: str, *words: str) -> tuple[int, str]:
        with self.start(tests, *words) as process:
            said = process.communicate(timeout=PATIENCE)[0]
        return process.returncode, said

    @contextmanager
    def waiting(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A run in the middle of a test that has started a daemon."""
        with self.start(WAITS, *words) as process:
            try:
                until((self.pids / "ready").exists)
                yield process
            finally:
                process.kill()
                process.communicate()

    def daemon(self) -> Mark:
        return Mark.of(int((self.pids / "daemon").read_text()))

    def left(self) -> list[Path]:
        return list(self.temporary.iterdir())


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@PARALLEL
def test_a_process_left_behind_is_named_with_its_test_and_fails_the_run(
    suite: Suite, parallel: tuple[str, ...]
) -> None:
    code, said = suite.run(DETACHES, *parallel)
    pid = (suite.pids / "daemon").read_text().strip()
    assert code == LEFT_BEHIND, said
    assert f"LEFT BEHIND process {pid} (sleep 1000) of test_some.py::test_leaves_a_daemon" in said
    assert mark_of(int(pid)) is None  # also of one that init has not reaped yet
    assert suite.left() == []


def test_a_run_that_leaves_nothing_passes(suite: Suite) -> None:
    assert suite.run(PASSES)[0] == 0
    assert suite.left() == []


@PARALLEL
def test_nothing_is_left_after_an_interrupt(suite: Suite, parallel: tuple[str, ...]) -> None:
    with suite.waiting(*parallel) as run:
        daemon = suite.daemon()
        run.send_signal(signal.SIGINT)
        run.wait(PATIENCE)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert not daemon.alive()
    assert suite.left() == []


@PARALLEL
def test_the_next_run_removes_what_a_killed_one_left(suite: Suite, parallel: tuple[str, ...]) -> None:
    with suite.waiting(*parallel) as run:
        daemon = suite.daemon()
        run.kill()
        run.wait(PATIENCE)
    assert daemon.alive()
    assert suite.run(PASSES)[0] == 0
    assert not daemon.alive()
    assert suite.left() == []


def test_nothing_is_left_of_a_worker_that_was_killed(suite: Suite) -> None:
    with suite.waiting("-n", "1", "--max-worker-restart", "0") as run:
        daemon = suite.daemon()
        (record,) = map(load, suite.temporary.glob("*/*.json"))
        (worker,) = children(record.controller.pid)
        os.kill(worker, signal.SIGKILL)
        said = run.communicate(timeout=PATIENCE)[0]
    assert run.returncode != 0
    assert f"LEFT BEHIND process {daemon.pid}" in said
    assert not daemon.alive()
    assert suite.left() == []


def test_runs_at_the_same_time_do_not_disturb_each_other(suite: Suite) -> None:
    with suite.waiting() as run:
        daemon = suite.daemon()
        assert suite.run(PASSES)[0] == 0
        assert daemon.alive()
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        run.wait(PATIENCE)
    assert suite.left() == []


def test_a_shell_that_visits_the_folder_of_a_run_does_not_belong_to_it(suite: Suite) -> None:
    with suite.waiting() as run:
        (record,) = map(load, suite.temporary.glob("*/*.json"))
        visiting = {"PWD": str(record.folder), "OLDPWD": str(record.folder)}
        with subprocess.Popen(["sleep", "1000"], cwd=record.folder, env=visiting) as shell:
            assert shell.pid not in [mark.pid for mark in processes(record)]
            assert suite.daemon() in processes(record)
            shell.kill()
        run.send_signal(signal.SIGINT)
        run.wait(PATIENCE)


@NEEDS_A_NETWORK
@pytest.mark.parametrize("address", ["10.190.255.1", "192.0.2.1"])
def test_no_request_leaves_the_machine(address: str) -> None:
    with socket.socket() as client:
        assert client.connect_ex((address, 443)) == errno.ENETUNREACH


@NEEDS_A_NETWORK
def test_a_bridge_a_mount_and_a_process_without_environment_are_found(suite: Suite) -> None:
    bare = DETACHES.replace('"--fork", ', '"--fork", "env", "--ignore-environment", ')
    mounts = """
    subprocess.run(["ip", "link", "add", "left0", "type", "bridge"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path], check=True)
"""
    code, said = suite.run(bare + mounts)
    assert code == LEFT_BEHIND, said
    for what in ("process", "network device left0", "mount"):
        assert f"LEFT BEHIND {what}" in said
    assert not suite.left()
    assert str(suite.temporary) not in Path("/proc/self/mountinfo").read_text()


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
