"""Killing for good: freeze everything first, so that nothing can fork away, then kill. Light.

One sweep is no proof. A supervisor's proof is the kernel's word that it has no child left: it is the
sub-reaper, so every orphan below it becomes its child, and "no child" means no descendant. Without a
supervisor the proof is two sweeps in a row that find nobody.
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
    """Freeze all that `find` finds until it finds nobody new, then kill them; how many there were."""
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
