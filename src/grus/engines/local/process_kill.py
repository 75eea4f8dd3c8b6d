"""Reliable killing: freeze all processes first, so that none can fork away, then kill them. Light.

One sweep does not guarantee it. A supervisor's guarantee is the kernel's answer that it has no child left: it
is the sub-reaper, so every orphan below it becomes its child, and "no child" means no descendant. Without a
supervisor the guarantee is two sweeps in a row that find no process.
"""

import os
import signal
from collections.abc import Callable, Iterable

from grus.engines.local import processes
from grus.engines.local.processes import Process

_MOST_PASSES = 50
_WALL = 0x40000000
"""__WALL of waitpid(2): also children made by clone() with another exit signal."""


def sweep(find: Callable[[], Iterable[Process]]) -> int:
    """Freeze all processes that `find` returns until it
    finds no new one, then kill them; return their number.
    """
    frozen: dict[tuple[int, int], Process] = {}
    for _ in range(_MOST_PASSES):
        new = [one for one in find() if one.alive and (one.pid, one.start) not in frozen]
        if not new:
            break
        for one in new:
            processes.send(one.pid, one.start, signal.SIGSTOP)
            frozen[one.pid, one.start] = one
    for one in frozen.values():
        processes.send(one.pid, one.start, signal.SIGKILL)
    return len(frozen)


def reap(ended: Callable[[int, int], None]) -> bool:
    """Collect all children that have ended, telling pid and status of each; whether there is none left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | _WALL)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        ended(pid, status)


def below_me() -> list[Process]:
    """All living descendants of this process."""
    return [one for one in processes.descendants([os.getpid()], processes.scan()) if one.alive]
