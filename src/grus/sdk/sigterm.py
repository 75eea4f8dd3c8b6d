"""Termination by signal: the process records that it was asked to end.

A handler runs between any two instructions of the main thread, also in the middle of `threading.Event.wait`,
which then holds a lock that `Event.set` needs: the process would deadlock with itself. A counter that the
kernel keeps needs no lock.
"""

import math
import os
import select
import weakref


class SignalFlag:
    """Event like `threading.Event`, but `set` may be called by a signal's handler. For any thread."""

    def __init__(self) -> None:
        self._set = False
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not at the end of the process: a handler may still write then.
        weakref.finalize(self, os.close, self._bell).atexit = False

    def set(self) -> None:
        self._set = True
        os.eventfd_write(self._bell, 1)

    def is_set(self) -> bool:
        return self._set

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, or for so long; return whether it is set."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.poll(None if seconds is None else math.ceil(max(0.0, seconds) * 1000))
        return self._set
