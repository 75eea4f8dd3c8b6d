"""The way out of a process that has threads inside a library.

Python ends such threads where they next ask for its lock; in the middle of C++ that brings the whole process
down with SIGABRT, and a run that has finished would look like one that has crashed. So the way out waits for
them a little, and does without Python's own end if they take longer.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable

MARK = "grus-library-"
"""How the names of these threads begin."""
GRACE = 5.0


def start(target: Callable[[], object], name: str) -> None:
    """Run something that may block inside a library, in a thread of its own."""
    threading.Thread(target=target, name=MARK + name, daemon=True).start()


def _wait() -> None:
    """Before Python ends; what ended it is known only if it was an error that nobody handled."""
    deadline = time.monotonic() + GRACE
    for thread in threading.enumerate():
        if thread.name.startswith(MARK):
            thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.name.startswith(MARK) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if getattr(sys, "last_value", None) is not None else 0)


atexit.register(_wait)
