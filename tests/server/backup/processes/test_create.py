"""A backup whose process is killed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from grus.server.backup.create import back_up
from tests.server.backup.test_create import NOW, a_state, names

HOST = socket.gethostname()


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty folder"])
def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "monday"
    if there:
        target.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    beside = target if there else tmp_path
    for pid in (dead.pid, os.getpid()):
        (beside / f".monday.grus-{HOST}-{pid}" / "artefacts").mkdir(parents=True)
    others = [
        tmp_path / f".tuesday.grus-{HOST}-{dead.pid}",
        tmp_path / f".monday.grus-elsewhere-{dead.pid}",
        tmp_path / ".monday.2024",
        tmp_path / f".monday.grus-{HOST}-{os.getppid()}",
    ]
    for other in others:
        other.mkdir()
    back_up(a_state(tmp_path), target, NOW)
    assert names(target) == ["backup.json", "config.toml", "grus.db"]
    assert all(other.exists() for other in others)
    assert not (beside / f".monday.grus-{HOST}-{dead.pid}").exists()
