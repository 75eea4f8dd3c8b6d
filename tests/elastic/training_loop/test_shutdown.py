"""A process that ends while a thread of it is inside a library ends as it would without."""

import subprocess
import sys

PROGRAM = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
from grus.elastic.training_loop import shutdown
shutdown.GRACE = 0.2
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
shutdown.start(lambda: store.get("never"), "waits")
print("finished")
if sys.argv[1:]:
    raise ValueError(sys.argv[1])
"""


def ended(*words: str) -> tuple[int, str]:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300
    )
    return found.returncode, found.stdout


def test_a_run_that_has_finished_does_not_look_like_one_that_crashed() -> None:
    """Without this, Python ends the thread in the middle of C++, and that the process with SIGABRT."""
    assert ended() == (0, "finished\n")


def test_an_error_that_nobody_handles_is_still_one() -> None:
    assert ended("wrong") == (1, "finished\n")
