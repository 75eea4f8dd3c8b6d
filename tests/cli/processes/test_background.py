"""Which process is the server: the one that holds the state's lock, not whoever has its old pid."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.cli import background
from grus.sdk.places import Places
from grus.server.lock import StateLock
from tests.cli.real import RealGrus


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with Grus."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def left_by_a_dead_server(home: Path, pid: int) -> Places:
    """What a server that was killed leaves behind, its pid being in use again."""
    at = Places(config=home, state=home / "state")
    at.state.mkdir(parents=True)
    lock = StateLock(at.lock_file)
    lock.take()
    lock.release()
    at.server_file.write_text(json.dumps({"address": "http://127.0.0.1:9", "pid": pid, "started_at": 1.0}))
    return at


def test_a_process_that_got_the_pid_of_a_dead_server_is_not_taken_for_it(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    assert background.is_running(left_by_a_dead_server(tmp_path, sleeper.pid)) is None


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
    found = background.is_running(at)
    lock.release()
    assert found is not None
    assert found.pid == os.getpid()
