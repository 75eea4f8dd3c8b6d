"""Which process is the server: the one that holds the state's lock, not whoever has its old pid."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.cli.server import background_process
from grus.sdk.state_paths import GrusPaths
from grus.server.runtime.lock import StateLock
from tests.cli.real import RealGrus


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with Grus."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def left_by_a_dead_server(home: Path, pid: int) -> GrusPaths:
    """What a server that was killed leaves behind, its pid being in use again."""
    at = GrusPaths(config=home, state=home / "state")
    at.state.mkdir(parents=True)
    lock = StateLock(at.lock_file)
    lock.take()
    lock.release()
    at.server_file.write_text(json.dumps({"address": "http://127.0.0.1:9", "pid": pid, "started_at": 1.0}))
    return at


def test_a_process_that_got_the_pid_of_a_dead_server_is_not_taken_for_it(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    assert background_process.is_running(left_by_a_dead_server(tmp_path, sleeper.pid)) is None


def test_down_never_signals_a_process_that_got_the_pid_of_a_dead_server(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    left_by_a_dead_server(tmp_path, sleeper.pid)
    RealGrus(tmp_path)("down", code=6)
    assert sleeper.poll() is None


def test_who_holds_the_lock_is_the_server(tmp_path: Path) -> None:
    at = left_by_a_dead_server(tmp_path, os.getpid())
    lock = StateLock(at.lock_file)
    lock.take()
    found = background_process.is_running(at)
    lock.release()
    assert found is not None
    assert found.pid == os.getpid()


def test_warnings_of_the_server_are_shown_after_the_start(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path / "home")
    pool = ("--virtual", "1x1x1GB", "--port", "0")
    grus.configure('[server]\nallowed_hosts = ["gpu.lab"]\n')
    try:
        said = grus.up(*pool, "--host", "0.0.0.0", "--insecure-http")
        assert "warning: --insecure-http: tokens and jobs travel in the clear" in said
    finally:
        grus.down()
