"""Guarded connections: they check, right before bytes are sent, whether they still may send.

A process can be stopped at any point and wake up much later. A process that checks its leadership and then
writes may so write long after the leadership was lost. Here the check is made at the last moment, between
that and the system call.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ssl import SSLSocket
from traceback import walk_tb
from types import TracebackType
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection

from grus.kubernetes.client.errors import Unreachable

Guard = Callable[[], bool]


class _CurrentGuard(threading.local):
    guard: Guard | None = None


_asked = _CurrentGuard()


@contextmanager
def guarded(guard: Guard | None) -> Iterator[None]:
    """Let this thread's requests inside the block out only while the guard returns true."""
    before, _asked.guard = _asked.guard, guard
    try:
        yield
    finally:
        _asked.guard = before


def _require() -> None:
    if _asked.guard is not None and not _asked.guard():
        raise Unreachable("the leadership could not be renewed; nothing is sent until it is")


class GuardedHTTP(HTTPConnection):
    """Connection that checks the guard before it sends."""

    def send(self, data: Any) -> None:
        _require()
        super().send(data)


class GuardedHTTPS(HTTPSConnection):
    """Connection that checks the guard before it sends."""

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:
            _close_half_made(error.__traceback__)
            raise

    def send(self, data: Any) -> None:
        _require()
        super().send(data)


def _close_half_made(trace: TracebackType | None) -> None:
    """Close the TLS socket that a failed connection left open.

    CPython before 3.11.8 and 3.12.2 leaves it to the garbage collector if the server resets the connection
    before the handshake (python/cpython issue 113280). Only the frames of the error know it.
    """
    for frame, _ in walk_tb(trace):
        if isinstance(half_made := frame.f_locals.get("self"), SSLSocket):
            half_made.close()
