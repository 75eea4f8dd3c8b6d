"""A few seconds of chaos: everything ends, nothing is lost, and the faults do happen."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.trust import chaos, preloading
from tests.trust.chaos_faults import Faults

pytestmark = pytest.mark.skipif(preloading.compiler() is None, reason=preloading.CANNOT)

PROGRAM = """
import errno, os, sys, time
path = sys.argv[1] + "/file"
before = time.time()
begun = time.monotonic()
try:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x")
    os.fsync(file)
    print("written", round(time.monotonic() - begun, 1))
except OSError as error:
    print(errno.errorcode[error.errno])
print(round((before - os.stat(sys.argv[1]).st_mtime) / 3600))
"""


def told(folder: Path, **faults: int) -> list[str]:
    """What a program sees of the disk and of the clock while these faults last."""
    disk = folder / "disk"
    disk.mkdir()
    control = Faults(disk.resolve(), folder / "faults")
    control.set(**faults)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(disk.resolve())],
        env=control.env,
        stdout=-1,
        text=True,
        check=True,
    )
    control.close()
    return done.stdout.split()


def test_a_full_disk_takes_no_more(tmp_path: Path) -> None:
    assert told(tmp_path, full=1) == ["ENOSPC", "0"]


def test_a_slow_disk_syncs_late(tmp_path: Path) -> None:
    word, seconds, _ = told(tmp_path, slow=700)
    assert (word, float(seconds) >= 0.7) == ("written", True)


def test_a_clock_that_has_jumped_is_ahead(tmp_path: Path) -> None:
    assert told(tmp_path, shift=7200)[-1] == "2"


def test_a_few_seconds_of_chaos_lose_nothing(tmp_path: Path) -> None:
    figures = chaos.run(tmp_path, minutes=0.1, jobs=8, seed=3)
    assert not figures.wrong, figures
    assert figures.calls > figures.unanswered
    assert figures.starts > 0
