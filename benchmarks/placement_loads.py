"""Pipeline placement by load: stages for many micro-batches in flight; a device's largest load decides.

    place_pipeline(graph, topology)  →  LoadPipeline | Infeasible

Forward data flows in one direction through the stages and backward data in the other, so a stage can run as
one module. A device holds all that its stage reads, keeps and writes for a micro-batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grus.partition.execution.placement_plan import Infeasible
from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import Units, breadth_first, depth_first, forward_edges
from grus.partition.pipelining.stage_units import loads, stage_units
from grus.partition.placers.contiguous_segments import split, stretches
from grus.partition.placers.infeasibility import explain, impossible
from grus.partition.placers.lower_bounds import load_bound
from grus.partition.placers.memory_fit import footprints
from grus.partition.placers.outcome import Assignment
from grus.partition.topology import Topology
from grus.partition.verification.placement_check import place_faults, stage_faults
from grus.partition.verification.tolerances import ROUNDING

MOVES = 400
"""Changes that the local search may try."""


@dataclass(frozen=True, slots=True)
class LoadPipeline:
    """Stages for any number of micro-batches: the slowest device sets the pace."""

    placer: str
    device_of: tuple[int, ...]
    loads: tuple[float, ...]
    """Seconds that each device is busy for a micro-batch: its operators, what it sends and receives."""
    peaks: tuple[int, ...]
    """Bytes of each device with one micro-batch in flight."""
    bound: float
    """No pipeline on these devices has a smaller largest load."""

    @property
    def slowest(self) -> float:
        return max(self.loads)


def place_pipeline(graph: OpGraph, topology: Topology, budget: int = MOVES) -> LoadPipeline | Infeasible:
    """The most even pipeline found."""
    found = None if impossible(graph, topology) is not None else _search(graph, topology, budget)
    if found is None:
        return explain(graph, topology, lambda raised: _search(graph, raised, 0) is not None)
    return found


def describe(graph: OpGraph, topology: Topology, device_of: Sequence[int], placer: str) -> LoadPipeline:
    """Return the pipeline of a given division into stages; it may not fit."""
    return LoadPipeline(
        placer=placer,
        device_of=tuple(device_of),
        loads=loads(graph, topology, device_of),
        peaks=footprints(graph, topology, device_of),
        bound=load_bound(graph, topology),
    )


def _search(graph: OpGraph, topology: Topology, budget: int) -> LoadPipeline | None:
    units = stage_units(graph)
    found = [
        (describe(graph, topology, device_of, "contiguous"), devices)
        for device_of, devices in _splits(graph, topology, units)
    ]
    if not found:
        return None
    best, devices = min(found, key=lambda one: one[0].slowest)
    return _evened(graph, topology, units, best, devices, budget)


def _splits(
    graph: OpGraph, topology: Topology, units: Units
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(device of each operator, devices in the order of the stages)"""
    listed = tuple(range(len(topology.devices)))
    by_memory = tuple(sorted(listed, key=lambda one: -topology.devices[one].memory))
    for order in (breadth_first(graph, units), depth_first(graph, units)):
        table = stretches(graph, topology, units, order)
        for devices in {listed, by_memory}:
            found = split(graph, topology, units, order, [table] * len(devices), devices, evenest=True)
            if isinstance(found, Assignment):
                yield found.device_of, devices


def _evened(
    graph: OpGraph, topology: Topology, units: Units, plan: LoadPipeline, devices: Sequence[int], budget: int
) -> LoadPipeline:
    """Move units off the slowest device to other stages, as long as the loads become more even."""
    stage_of = {device: place for place, device in enumerate(devices)}
    while budget > 0:
        slowest = max(range(len(plan.loads)), key=lambda one: plan.loads[one])
        better = None
        for unit, device in _shifts(graph, units, plan, slowest, devices, stage_of):
            if budget <= 0:
                break
            budget -= 1
            better = _shifted(graph, topology, units.members[unit], device, plan)
            if better is not None:
                break
        if better is None:
            return plan
        plan = better
    return plan


def _shifted(
    graph: OpGraph, topology: Topology, members: Sequence[int], device: int, plan: LoadPipeline
) -> LoadPipeline | None:
    device_of = list(plan.device_of)
    for op in members:
        device_of[op] = device
    if sorted(loads(graph, topology, device_of), reverse=True) >= sorted(plan.loads, reverse=True):
        return None
    moved = describe(graph, topology, device_of, plan.placer)
    room = all(peak <= one.memory for peak, one in zip(moved.peaks, topology.devices, strict=True))
    return moved if room else None


def _shifts(
    graph: OpGraph,
    units: Units,
    plan: LoadPipeline,
    slowest: int,
    devices: Sequence[int],
    stage_of: dict[int, int],
) -> Iterator[tuple[int, int]]:
    """(unit of the slowest device, another device) so that data still flows one way."""
    lowest: dict[int, int] = {}
    highest: dict[int, int] = {}
    place = {unit: stage_of[plan.device_of[members[0]]] for unit, members in enumerate(units.members)}
    for one, two in forward_edges(graph, units):
        lowest[two] = max(lowest.get(two, 0), place[one])
        highest[one] = min(highest.get(one, len(devices) - 1), place[two])
    for unit, members in enumerate(units.members):
        if plan.device_of[members[0]] != slowest:
            continue
        for stage in range(lowest.get(unit, 0), highest.get(unit, len(devices) - 1) + 1):
            if devices[stage] != slowest:
                yield unit, devices[stage]


def load_faults(graph: OpGraph, topology: Topology, plan: LoadPipeline) -> list[str]:
    """All that is wrong with a pipeline."""
    found = place_faults(graph, topology, plan.device_of)
    if found:
        return found
    found = stage_faults(graph, topology, plan.device_of, plan.loads)
    for device in range(len(plan.loads)):
        found += _memory_faults(graph, topology, plan, device)
    if plan.bound > plan.slowest * (1 + ROUNDING):
        found.append(f"the bound {plan.bound} is above the largest load {plan.slowest}")
    return found


def _memory_faults(graph: OpGraph, topology: Topology, plan: LoadPipeline, device: int) -> list[str]:
    """Memory of a stage with one micro-batch in flight of which nothing is released."""
    limit = topology.devices[device]
    members = {number for number, place in enumerate(plan.device_of) if place == device}
    guests = {source for source, target in graph.edges if target in members} - members
    needed = sum(graph.ops[n].permanent + (0 if graph.ops[n].saved else graph.ops[n].output) for n in members)
    needed += sum(graph.ops[one].output for one in guests)
    needed += max((graph.ops[one].temporary for one in members), default=0)
    if needed > limit.memory or needed != plan.peaks[device]:
        return [f"{limit.name} needs {needed} bytes, has {limit.memory}, was told {plan.peaks[device]}"]
    return []
