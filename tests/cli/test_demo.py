"""The demo ends as it should within its time, and leaves nothing behind, also when it is interrupted."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.real import RealGrus

LONGEST = 130.0

pytestmark = pytest.mark.serial


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes whose environment names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[str]":
    env = {**RealGrus(tmp_path / "unused").env, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-u", "-m", "grus.cli.main", "demo", *options]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_it_says(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    _, errors = process.communicate(timeout=LONGEST)
    pytest.fail(f"it ended ({process.returncode}) without saying {words!r}: {errors}")


def test_everything_ends_as_promised_and_nothing_is_left(tmp_path: Path) -> None:
    process = start(tmp_path, "-o", "json")
    said, errors = process.communicate(timeout=LONGEST)
    assert (process.returncode, errors) == (0, ""), said
    told = json.loads(said)
    assert [one for one in told["jobs"] if not one["ok"]] == []
    assert {one["job"] for one in told["jobs"]} >= {
        "gang",
        "elastic",
        "notebook",
        "night-run",
        "fragile",
        "training",
    }
    assert all(one["why"] for one in told["jobs"])
    assert told["seconds"] <= LONGEST
    assert list(tmp_path.glob("grus-demo-*")) == []
    assert processes_of(tmp_path) == []


def test_an_interrupted_demo_cleans_up(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_until_it_says(process, "all 4 workers are up")
    assert processes_of(tmp_path) != []
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "everything that was started has been ended" in errors
    assert list(tmp_path.glob("grus-demo-*")) == []
    assert processes_of(tmp_path) == []


def test_a_demo_that_goes_wrong_says_so_and_where_the_logs_are(tmp_path: Path) -> None:
    """Its elastic job is taken away by somebody else in the middle."""
    process = start(tmp_path)
    wait_until_it_says(process, "all 4 workers are up")
    (home,) = tmp_path.glob("grus-demo-*")
    RealGrus(home)("stop", "elastic")
    said, errors = process.communicate(timeout=LONGEST)
    assert process.returncode == 1
    assert "[fail] elastic" in said
    assert f"its logs: {home}/state" in errors
    assert processes_of(tmp_path) == []
