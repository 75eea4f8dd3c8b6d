"""Connections that ask, right before bytes go out, whether they still may.

A process can be stopped at any point and wake up much later. Whoever checks its leadership and then writes
may so write long after it was lost. The check is made here at the last moment, between it and the system
call.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection

from grus.kubernetes.refusals import Unreachable

Guard = Callable[[], bool]


class _Asked(threading.local):
    guard: Guard | None = None


_asked = _Asked()


@contextmanager
def guarded(guard: Guard | None) -> Iterator[None]:
    """What this thread sends meanwhile goes out only while the guard says yes."""
    before, _asked.guard = _asked.guard, guard
    try:
        yield
    finally:
        _asked.guard = before


def _require() -> None:
    if _asked.guard is not None and not _asked.guard():
        raise Unreachable("the leadership could not be renewed; nothing is sent until it is")


class GuardedHTTP(HTTPConnection):
    """A connection that asks before it sends."""

    def send(self, data: Any) -> None:
        _require()
        super().send(data)


class GuardedHTTPS(HTTPSConnection):
    """A connection that asks before it sends."""

    def send(self, data: Any) -> None:
        _require()
        super().send(data)
