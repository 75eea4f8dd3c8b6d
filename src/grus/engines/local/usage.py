"""Resource usage of running workers, from /proc: one scan for all of them.

Only `ProcessTreeMeter` keeps state between calls: the bytes of connections that are closed by now.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from grus.engines.local import processes
from grus.engines.local.processes import TICKS, Process
from grus.engines.local.worker_records import WorkerRecord
from grus.model.identifiers import WorkerId
from grus.model.interfaces import Usage
from grus.model.resources import GPU
from grus.telemetry import disk_io
from grus.telemetry.device_provider import Reading
from grus.telemetry.disk_io import Bytes
from grus.telemetry.network_traffic import Count, Traffic


@dataclass(frozen=True, slots=True)
class Tree:
    """The living processes of one worker, and what they have used."""

    pids: frozenset[int]
    cpu_seconds: float
    memory: int
    disk: Bytes | None = None


class ProcessTreeMeter:
    """Measures trees for `usage`. Any thread."""

    def __init__(self) -> None:
        self._traffic: Traffic[WorkerId] = Traffic()

    def measure(
        self, records: Sequence[WorkerRecord], at: float
    ) -> dict[WorkerId, tuple[Tree, Count | None]]:
        """Return the usage by worker, with the bytes of disks and network.

        Workers whose supervisor is gone are missing.
        """
        found = trees(records)
        supervisors = {record.id: record.supervisor for record in records}
        counts = self._traffic.count({id_: tree.pids for id_, tree in found.items()}, at)
        return {
            id_: (replace(tree, disk=_disk(supervisors[id_], tree.pids)), counts.get(id_))
            for id_, tree in found.items()
        }


def _disk(supervisor: int, pids: Iterable[int]) -> Bytes | None:
    """The supervisor's own work is not the job's, but what it has reaped is."""
    ended, living = disk_io.of_ended_children(supervisor), disk_io.of_processes(pids)
    return None if ended is None or living is None else ended.plus(living)


def trees(records: Sequence[WorkerRecord]) -> dict[WorkerId, Tree]:
    """Return the process trees by worker; workers whose supervisor is gone are missing."""
    table = processes.scan()
    children = processes.children(table)
    return {
        record.id: _tree(table[record.supervisor], children)
        for record in records
        if record.supervisor in table
    }


def _tree(supervisor: Process, children: Mapping[int, Sequence[Process]]) -> Tree:
    below = processes.below([supervisor.pid], children)
    # The supervisor's own work is not the job's, but what it has reaped is.
    ended = supervisor.children_cpu + sum(one.children_cpu for one in below)
    return Tree(
        pids=frozenset(one.pid for one in below),
        cpu_seconds=ended / TICKS + sum(processes.cpu_seconds(one) for one in below),
        memory=sum(one.resident for one in below),
    )


def usage(
    record: WorkerRecord,
    tree: Tree,
    count: Count | None,
    at: float,
    *,
    virtual: bool,
    readings: Sequence[Reading],
) -> Usage:
    """One worker's use; remembers on the record when and how much CPU it was, for the next call."""
    before = record.measured or (record.started_at or at, 0.0)
    # An ended process's time is known in ticks only: the sum may fall behind by less than one.
    cpu_seconds = max(before[1], tree.cpu_seconds)
    record.measured = (at, cpu_seconds)
    utilisation, gpu_memory = None, None
    if record.devices and virtual:
        held = len(record.devices) * (record.share or GPU) / GPU
        utilisation = _rate(cpu_seconds - before[1], at - before[0], held)
        gpu_memory = tree.memory
    elif record.devices:
        own = [reading for reading in readings if reading.id in record.devices]
        utilisation = _mean([one.utilisation for one in own if one.utilisation is not None])
        gpu_memory = sum(held for one in own for pid, held in one.processes if pid in tree.pids)
    return Usage(
        worker=record.id,
        at=at,
        cpu_seconds=cpu_seconds,
        memory=tree.memory,
        gpu_utilisation=utilisation,
        gpu_memory=gpu_memory,
        disk_read=tree.disk.read if tree.disk else None,
        disk_write=tree.disk.written if tree.disk else None,
        network_in=count.received if count else None,
        network_out=count.sent if count else None,
        network_at=count.at if count else None,
    )


def _rate(used: float, seconds: float, held: float) -> float:
    """CPU seconds a second for each GPU held, from 0 to 1."""
    return min(1.0, max(0.0, used / seconds / held)) if seconds > 0 else 0.0


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
