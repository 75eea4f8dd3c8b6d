"""Exit of a process that has threads inside a library.

Python ends such threads where they next request its lock; in the middle of C++ that brings the whole process
down with SIGABRT, and a run that has finished would look like one that has crashed. So the exit waits for
them for a short time, and skips Python's own shutdown if they take longer.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable

MARK = "grus-library-"
"""Prefix of the names of these threads."""
GRACE = 5.0


def start(target: Callable[[], object], name: str) -> None:
    """Run something that may block inside a library, in a thread of its own."""
    threading.Thread(target=target, name=MARK + name, daemon=True).start()


def _wait() -> None:
    """Wait before Python ends; the cause of the end is known only if it was an unhandled error."""
    deadline = time.monotonic() + GRACE
    for thread in threading.enumerate():
        if thread.name.startswith(MARK):
            thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.name.startswith(MARK) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if getattr(sys, "last_value", None) is not None else 0)


atexit.register(_wait)
