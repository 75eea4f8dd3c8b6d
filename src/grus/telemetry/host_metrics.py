"""Use of a whole machine by all processes: a `SampleSource` of samples separate from those of Grus's own
workers.

The difference between the two is the use by others.
"""

import os
import socket
from typing import NamedTuple

from grus.model.identifiers import NodeId
from grus.telemetry.counter_rates import rate
from grus.telemetry.network_traffic import interfaces
from grus.telemetry.samples import Batch, LostMeasure, Measure, Sample, Subject

_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR = 512
"""Bytes: the unit of /proc/diskstats, independent of the disk's own."""


def this_machine() -> NodeId:
    """The name of the node that this machine is."""
    return NodeId(socket.gethostname().partition(".")[0].lower() or "local")


class Totals(NamedTuple):
    cpu_seconds: float
    memory: int
    disk_read: int
    disk_write: int
    network: tuple[int, int] | None
    """Bytes received and sent over all interfaces but the loopback."""


class MachineSource:
    """Called by one thread; `proc` is the place of the machine's /proc."""

    def __init__(self, node: NodeId, *, interval: float = 1.0, proc: str = "/proc") -> None:
        self._subject = Subject(node)
        self._interval = interval
        self._proc = proc
        self._before: tuple[float, Totals] | None = None
        self._lost: LostMeasure | None = None

    @property
    def shortest(self) -> float:
        return self._interval

    def sample(self, now: float) -> Batch:
        try:
            found = totals(self._proc)
        except (OSError, ValueError, KeyError, IndexError) as error:
            since = self._lost.since if self._lost else now
            self._lost = LostMeasure(f"machine {self._subject.node}", str(error), since)
            return Batch((), (self._lost,))
        self._lost = None
        before, self._before = self._before, (now, found)
        values = {Measure.HOST_MEMORY: float(found.memory)}
        if before is not None:
            values |= _rates(before[1], found, now - before[0])
        return Batch((Sample(self._subject, now, values),))

    def close(self) -> None:
        """Nothing to end."""


def totals(proc: str = "/proc") -> Totals:
    """Counters since the machine was started, and the memory that programs could not have now."""
    with open(f"{proc}/stat", encoding="ascii") as file:
        cpu = [int(field) for field in file.readline().split()[1:9]]
    with open(f"{proc}/meminfo", encoding="ascii") as file:
        memory = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}
    reads, writes = _disks(f"{proc}/diskstats")
    return Totals(
        # All but waiting (fields 4 and 5); what was stolen by other guests of a host was not used here.
        cpu_seconds=(sum(cpu[:3]) + sum(cpu[5:7])) / _TICKS,
        memory=(memory["MemTotal"] - memory["MemAvailable"]) * 1024,
        disk_read=reads,
        disk_write=writes,
        network=interfaces(f"{proc}/net/dev"),
    )


def _disks(path: str) -> tuple[int, int]:
    """Bytes read and written by whole disks: their parts, and what is made of others, would count twice."""
    reads = writes = 0
    with open(path, encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if _is_disk(fields[2]):
                reads += int(fields[5]) * _SECTOR
                writes += int(fields[9]) * _SECTOR
    return reads, writes


def _is_disk(name: str) -> bool:
    """Return whether it is a disk that is not made of others (as those of RAID, LVM and loops are)."""
    return not name.startswith(("loop", "ram", "zram", "dm-", "md")) and os.path.isdir(f"/sys/block/{name}")


def _rates(before: Totals, now: Totals, seconds: float) -> dict[Measure, float]:
    told = {
        Measure.CPU: rate(before.cpu_seconds, now.cpu_seconds, seconds),
        Measure.DISK_READ: rate(before.disk_read, now.disk_read, seconds),
        Measure.DISK_WRITE: rate(before.disk_write, now.disk_write, seconds),
    }
    if before.network is not None and now.network is not None:
        told[Measure.NETWORK_IN] = rate(before.network[0], now.network[0], seconds)
        told[Measure.NETWORK_OUT] = rate(before.network[1], now.network[1], seconds)
    return {measure: value for measure, value in told.items() if value is not None}
