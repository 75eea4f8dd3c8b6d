"""Contiguous splits by a dynamic program: each device gets a stretch of one order of all units.

Two goals: `shortest` keeps the sum of work and transfers small (a single batch passes through the devices one
after the other), `evenest` the largest load of a device (many micro-batches in flight).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import Units
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.topology import Topology

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretches:
    """Tables with an entry [i, j] for each stretch from place i up to, not including, place j of an order."""

    seconds: Table
    receives: Table
    sends: Table
    memory: Table
    """Bytes if nothing were released."""
    once: Table
    kept: Table
    copies: Table
    work: Table
    """Bytes that are there however many micro-batches are in flight; of each that is; received for each;
    and about those of the operator that runs."""

    def in_flight(self, batches: int, most: int) -> "Stretches":
        """Return the stretches with memory for so many
        micro-batches, at most `most` of them between their passes.
        """
        return replace(self, memory=self.once + most * self.kept + batches * self.copies + self.work)


def stretches(graph: OpGraph, topology: Topology, units: Units, order: Sequence[int]) -> Stretches:
    count = len(order)
    place = [0] * count
    for position, unit in enumerate(order):
        place[unit] = position
    at = [place[unit] for unit in units.of]
    usual = topology.usual
    receives, sends, copies = Corners(count), Corners(count), Corners(count)
    for number, op in enumerate(graph.ops):
        readers = sorted({at[one] for one in graph.consumers[number]} - {at[number]})
        if readers:
            cost = usual.seconds(op.output)
            _received(receives, at[number], readers, cost)
            _received(copies, at[number], readers, op.output)
            sends.add(0, at[number], at[number] + 1, cost)
            sends.add(0, min(at[number], readers[0]), max(at[number], readers[-1]) + 1, -cost)
    seconds, once, kept, passing, top, work = (np.zeros(count) for _ in range(6))
    for position, op in zip(at, graph.ops, strict=True):
        seconds[position] += op.seconds
        once[position] += op.permanent - op.kept
        kept[position] += op.kept
        passing[position] += op.passing
        top[position] = max(top[position], op.temporary)
        work[position] = max(work[position], op.temporary + op.passing)
    received = copies.table()
    memory = _sums(once + kept + passing) + received + _maxima(top)
    return Stretches(
        *(_sums(seconds), receives.table(), sends.table(), memory),
        *(_sums(once), _sums(kept), received, _maxima(work)),
    )


class Corners:
    """A table over (begin, end) of stretches, as a sum of constants over corners of it."""

    def __init__(self, count: int) -> None:
        self._changes = np.zeros((count + 2, count + 2))

    def add(self, first: int, last: int, end: int, value: float) -> None:
        """Add a value for stretches that start in first … last and end at `end` or later."""
        if first <= last:
            self._changes[first, end] += value
            self._changes[last + 1, end] -= value

    def table(self) -> Table:
        return self._changes.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]


def _received(corners: Corners, home: int, readers: Sequence[int], value: float) -> None:
    """Stretches that hold a reader and not the producer receive a tensor, once: at their first reader."""
    before = -1
    for reader in readers:
        corners.add(before + 1, reader, reader + 1, value)
        corners.add(before + 1, min(reader, home), max(reader, home) + 1, -value)
        before = reader


def _sums(values: Table) -> Table:
    total = np.concatenate(([0.0], values.cumsum()))
    found: Table = np.maximum(total[None, :] - total[:, None], 0.0)
    return found


def _maxima(values: Table) -> Table:
    count = len(values)
    table = np.zeros((count + 1, count + 1))
    for begin in range(count):
        table[begin, begin + 1 :] = np.maximum.accumulate(values[begin:])
    return table


def split(
    graph: OpGraph,
    topology: Topology,
    units: Units,
    order: Sequence[int],
    tables: Sequence[Stretches],
    devices: Sequence[int],
    evenest: bool,
) -> Assignment | NoRoom:
    """The best split of the order into one stretch a device; devices in this order, a table for each."""
    count = len(order)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    choices = []
    backwards = np.tri(count + 1, dtype=bool)
    for device, table in zip(devices, tables, strict=True):
        limit, speed = topology.devices[device].memory, topology.devices[device].speed
        cost = table.seconds / speed + table.receives
        total = np.maximum(best[:, None], cost + table.sends) if evenest else best[:, None] + cost
        total[(table.memory > limit) | backwards] = np.inf
        # An empty stretch costs nothing.
        np.fill_diagonal(total, best)
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    if np.isinf(best[count]):
        reached = int(np.flatnonzero(np.isfinite(best)).max())
        return NoRoom(units.members[order[reached]][0])
    return _read_off(graph, units, order, devices, choices)


def _read_off(
    graph: OpGraph,
    units: Units,
    order: Sequence[int],
    devices: Sequence[int],
    choices: Sequence[NDArray[np.intp]],
) -> Assignment:
    device_of = [0] * len(graph.ops)
    end = len(order)
    for device, choice in zip(reversed(devices), reversed(choices), strict=True):
        begin = int(choice[end])
        for unit in order[begin:end]:
            for op in units.members[unit]:
                device_of[op] = device
        end = begin
    return Assignment(tuple(device_of), graph.topological)
