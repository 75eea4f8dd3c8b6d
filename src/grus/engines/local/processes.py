"""Processes from /proc: parents, start times, sizes; and signals that reach only the intended process.

A pid alone identifies no process, because the kernel uses it again: a process is a pid and its start time.
Light.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
_CPU_CLOCK = 2
PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """One line of /proc/<pid>/stat, as far as Grus cares."""

    pid: int
    parent: int
    state: str
    start: int
    """Ticks since boot."""
    cpu: int
    """Ticks of CPU used by itself."""
    children_cpu: int
    """Ticks of CPU used by the children that it has waited for, and theirs."""
    resident: int
    """Bytes."""

    @property
    def alive(self) -> bool:
        return self.state not in "ZXx"


def read(pid: int) -> Process | None:
    """The process with that pid now, or None."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    try:
        line = os.read(file, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    # The name in brackets may itself hold brackets and spaces: everything counts from the last one.
    fields = line[line.rindex(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        state=fields[0].decode(),
        start=int(fields[19]),
        cpu=int(fields[11]) + int(fields[12]),
        children_cpu=int(fields[13]) + int(fields[14]),
        resident=int(fields[21]) * PAGE,
    )


def cpu_seconds(process: Process) -> float:
    """Return the process's own CPU time: exact if the kernel gives it, else in ticks (once it is gone)."""
    try:
        # The clock of another process's CPU time, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime(~process.pid << 3 | _CPU_CLOCK)
    except OSError:
        return process.cpu / TICKS


def scan() -> dict[int, Process]:
    """All processes. Not a snapshot: processes come and go while it reads."""
    found = (read(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(roots: Iterable[int], table: Mapping[int, Process]) -> list[Process]:
    """Everything below the roots in the tree of processes, zombies included, the roots themselves not."""
    return below(roots, children(table))


def children(table: Mapping[int, Process]) -> dict[int, list[Process]]:
    """Return the processes by their parents' pids; for several calls of `below`."""
    found: dict[int, list[Process]] = {}
    for process in table.values():
        found.setdefault(process.parent, []).append(process)
    return found


def below(roots: Iterable[int], children: Mapping[int, Sequence[Process]]) -> list[Process]:
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        # Entries read one after the other need not form a tree: none is visited twice.
        new = [process for process in children.get(waiting.pop(), ()) if process.pid not in found]
        found.update((process.pid, process) for process in new)
        waiting += [process.pid for process in new]
    return list(found.values())


def send(pid: int, start: int, number: int) -> bool:
    """Signal this very process; False if it is gone, also if another process has its pid now."""
    handle = open_handle(pid, start)
    if handle is None:
        return False
    try:
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True


def open_handle(pid: int, start: int) -> int | None:
    """A pidfd of this very process (it may be a zombie), or None if it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return None
    now = read(pid)
    # Read after opening: if the start time fits, the handle is of the process that always had this pid.
    if now is None or now.start != start:
        os.close(handle)
        return None
    return handle


def boot_id() -> str:
    """Names this boot of the machine; nothing that ran in another one can be alive."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().decode().strip()


def carries(pid: int, mark: bytes) -> bool:
    """Return whether `mark` is in the environment that the process was started with."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
