"""What running workers use, out of /proc: one scan for all of them. Holds nothing between calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grus.engines.local import processes
from grus.engines.local.processes import TICKS, Process
from grus.engines.local.records import Record
from grus.model.identifiers import WorkerId
from grus.model.ports import Usage
from grus.model.resources import GPU
from grus.telemetry.source import Reading


@dataclass(frozen=True, slots=True)
class Tree:
    """The living processes of one worker, and what they have used."""

    pids: frozenset[int]
    cpu_seconds: float
    memory: int


def trees(records: Sequence[Record]) -> dict[WorkerId, Tree]:
    """By worker; workers whose supervisor is gone are missing."""
    table = processes.scan()
    return {
        record.id: _tree(table[record.supervisor], table) for record in records if record.supervisor in table
    }


def _tree(supervisor: Process, table: Mapping[int, Process]) -> Tree:
    below = processes.descendants([supervisor.pid], table)
    # The supervisor's own work is not the job's, but what it has reaped is.
    ticks = supervisor.children_cpu + sum(one.cpu + one.children_cpu for one in below)
    return Tree(
        pids=frozenset(one.pid for one in below),
        cpu_seconds=ticks / TICKS,
        memory=sum(one.resident for one in below),
    )


def usage(record: Record, tree: Tree, at: float, *, virtual: bool, readings: Sequence[Reading]) -> Usage:
    """One worker's use; remembers on the record when and how much CPU it was, for the next call."""
    before = record.measured or (record.started_at or at, 0.0)
    record.measured = (at, tree.cpu_seconds)
    utilisation, gpu_memory = None, None
    if record.devices and virtual:
        held = len(record.devices) * (record.share or GPU) / GPU
        utilisation = _rate(tree.cpu_seconds - before[1], at - before[0], held)
        gpu_memory = tree.memory
    elif record.devices:
        own = [reading for reading in readings if reading.id in record.devices]
        utilisation = _mean([one.utilisation for one in own if one.utilisation is not None])
        gpu_memory = sum(held for one in own for pid, held in one.processes if pid in tree.pids)
    return Usage(
        worker=record.id,
        at=at,
        cpu_seconds=tree.cpu_seconds,
        memory=tree.memory,
        gpu_utilisation=utilisation,
        gpu_memory=gpu_memory,
    )


def _rate(used: float, seconds: float, held: float) -> float:
    """CPU seconds a second for each GPU held, from 0 to 1."""
    return min(1.0, max(0.0, used / seconds / held)) if seconds > 0 else 0.0


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
