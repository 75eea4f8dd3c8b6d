"""Workers without a supervisor: find what is left by its token, kill it, prove it dead."""

from collections.abc import Callable

from grus.engines.local import process_kill, processes
from grus.engines.local.processes import Process
from grus.engines.local.spawn_process import TOKEN as TOKEN

_PAUSE = 0.05
"""Seconds between sweeps: longer than a fork needs to become a process with its own environment."""


def clear(token: str, closed: Callable[[float], bool]) -> bool:
    """Kill until two sweeps in a row find no process; False if the engine was closed before.

    `closed(seconds)` waits at most that long and returns whether the engine is closed.
    """
    quiet = 0
    while quiet < 2:
        quiet = 0 if process_kill.sweep(lambda: left(token)) else quiet + 1
        if closed(_PAUSE):
            return False
    return True


def left(token: str) -> list[Process]:
    """Living processes that carry the token."""
    if not token:
        return []
    mark = f"{TOKEN}={token}".encode()
    return [one for one in processes.scan().values() if one.alive and processes.carries(one.pid, mark)]


def is_alive(pid: int, start: int) -> bool:
    """Return whether this very process lives (a zombie does not)."""
    now = processes.read(pid)
    return now is not None and now.start == start and now.alive
