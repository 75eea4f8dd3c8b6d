"""Bytes that processes had fetched from disks and sent to them, as /proc reports for each process.

Reads from the kernel's cache do not count; writes count when they are passed to the kernel. A process's count
includes those of its children that it has waited for.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple


class Bytes(NamedTuple):
    read: int = 0
    written: int = 0

    def plus(self, other: "Bytes") -> "Bytes":
        return Bytes(self.read + other.read, self.written + other.written)

    def minus(self, other: "Bytes") -> "Bytes":
        return Bytes(max(0, self.read - other.read), max(0, self.written - other.written))


def of_processes(pids: Iterable[int]) -> Bytes | None:
    """All of them together; None if one may not be looked at. One that is gone has nothing."""
    found = Bytes()
    for pid in pids:
        one = read(f"/proc/{pid}/io")
        if one is None:
            return None
        found = found.plus(one)
    return found


def of_ended_children(pid: int) -> Bytes | None:
    """Return the bytes of the children that the process has waited for: its whole count, less its own
    threads'.
    """
    whole = read(f"/proc/{pid}/io")
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        threads = []
    own = Bytes()
    for thread in threads:
        one = read(f"/proc/{pid}/task/{thread}/io")
        if one is None:
            return None
        own = own.plus(one)
    return None if whole is None else whole.minus(own)


def read(path: str) -> Bytes | None:
    """None if it may not be read; nothing if the process is gone."""
    try:
        file = os.open(path, os.O_RDONLY)
    except PermissionError:
        return None
    except (FileNotFoundError, ProcessLookupError):
        return Bytes()
    try:
        text = os.read(file, 4096)
    except PermissionError:
        return None
    except ProcessLookupError:
        return Bytes()
    finally:
        os.close(file)
    table = dict(line.split(b": ") for line in text.splitlines())
    return Bytes(int(table[b"read_bytes"]), int(table[b"write_bytes"]))
