"""Network bytes of groups of processes: only those of their own TCP connections.

Counted at most once a second, since finding the owner of each connection is expensive. Not counted: a
connection that opens and closes between two counts, the bytes of one after its last count, and everything
that is not TCP (RDMA among it). For processes in a network of their own (a container's), the bytes over that
network's interfaces are counted.
"""

import os
import threading
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from grus.telemetry.netlink_sockets import Connection, connections

EVERY = 1.0
"""Seconds between two counts."""

Key = TypeVar("Key", bound=Hashable)


class Count(NamedTuple):
    """Bytes so far; restarts at zero with the process that counts."""

    at: float
    received: int
    sent: int


@dataclass(slots=True)
class _GroupCounters:
    """State of one group."""

    open: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Bytes of each connection, and of each network of its own, that it had at the last count."""
    received: int = 0
    sent: int = 0
    """Bytes of those that are no more."""

    def take(self, found: Mapping[int, tuple[int, int]]) -> None:
        for name, (received, sent) in self.open.items():
            if name not in found:
                self.received += received
                self.sent += sent
        self.open = dict(found)

    def count(self, at: float) -> Count:
        received = self.received + sum(one for one, _ in self.open.values())
        return Count(at, received, self.sent + sum(one for _, one in self.open.values()))


class Traffic(Generic[Key]):
    """Counts of groups of processes, by any key. Any thread; one counts at a time."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._at: float | None = None
        self._seen: dict[Key, _GroupCounters] = {}
        self._counts: dict[Key, Count] = {}

    def count(self, groups: Mapping[Key, Collection[int]], now: float) -> Mapping[Key, Count]:
        """Return the newest counts of these groups of pids; a group whose processes may not be inspected has
        none.

        Counts again only if the last time is long enough ago; else returns the last counts.
        """
        with self._lock:
            if self._at is None or not 0 <= now - self._at < self._every:
                self._at = now
                self._count(groups, now)
            return dict(self._counts)

    def _count(self, groups: Mapping[Key, Collection[int]], now: float) -> None:
        here = _network("self")
        owned = {key: _owned(pids, here) for key, pids in groups.items()}
        known: dict[int, Connection] = {}
        if any(found and found.inodes for found in owned.values()):
            try:
                known = connections()
            except OSError:  # no such kernel, or not allowed: then nothing is known
                owned = {key: found for key, found in owned.items() if found and not found.inodes}
        self._seen = {
            key: self._seen.get(key, _GroupCounters()) for key, found in owned.items() if found is not None
        }
        self._counts = {}
        for key, found in owned.items():
            if found is not None:
                self._seen[key].take(_bytes(found, known))
                self._counts[key] = self._seen[key].count(now)


class _Owned(NamedTuple):
    inodes: frozenset[int]
    """Inodes of sockets in this process's own network."""
    networks: Mapping[int, int]
    """Networks of their own, each with a process that is in it."""


def _owned(pids: Iterable[int], here: int | None) -> _Owned | None:
    """None if one of them may not be looked at. One that has ended meanwhile has nothing."""
    inodes: set[int] = set()
    networks: dict[int, int] = {}
    for pid in pids:
        try:
            network = _network(str(pid))
            if network == here:
                inodes |= _inodes(pid)
            elif network is not None:
                networks[network] = pid
        except PermissionError:
            return None
        except (FileNotFoundError, ProcessLookupError):
            continue
    return _Owned(frozenset(inodes), networks)


def _network(pid: str) -> int | None:
    """The inode of a process's network namespace; None if it has ended but was not waited for."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except (FileNotFoundError, ProcessLookupError):
        return None


def _inodes(pid: int) -> set[int]:
    found = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except (FileNotFoundError, ProcessLookupError):  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def _bytes(owned: _Owned, known: Mapping[int, Connection]) -> dict[int, tuple[int, int]]:
    """Received and sent bytes by what names them: a connection's cookie, minus a network's inode."""
    here = [known[inode] for inode in owned.inodes if inode in known]
    found = {one.cookie: (one.received, one.sent) for one in here}
    for network, pid in owned.networks.items():
        count = interfaces(f"/proc/{pid}/net/dev")
        if count is not None:
            found[-network] = count
    return found


def interfaces(path: str) -> tuple[int, int] | None:
    """Bytes received and sent over all interfaces of a network but the loopback; None if it is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()[2:]
    except OSError:
        return None
    rows = [line.partition(":") for line in lines]
    found = [rest.split() for name, _, rest in rows if name.strip() != "lo"]
    return sum(int(row[0]) for row in found), sum(int(row[8]) for row in found)
