"""Stages for a step of so many micro-batches: the shortest step that fits, with all that is in flight.

    place_stages(graph, topology, schedule)  →  Pipeline | Infeasible

The graph is that of one micro-batch. A dynamic program cuts it for every number of stages and, where devices
differ, for their orders; the true step of each cut is simulated, and units are moved over its borders as long
as that helps. Large graphs are coarsened first; the answer is that of the original operators.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, permutations

from grus.partition.execution.placement_plan import Infeasible, Pipeline, Rhythm, Schedule
from grus.partition.graph import OpGraph
from grus.partition.operators.coarsening import Limit, coarsen
from grus.partition.operators.colocation_groups import breadth_first, depth_first, forward_edges
from grus.partition.pipelining.micro_batch_schedule import Rounds
from grus.partition.pipelining.pipeline_cost import flow
from grus.partition.pipelining.stage_units import loads, stage_units
from grus.partition.placers.contiguous_segments import split, stretches
from grus.partition.placers.infeasibility import explain, impossible
from grus.partition.placers.lower_bounds import rounds_bound
from grus.partition.placers.outcome import Assignment
from grus.partition.topology import Topology, alike

MOVES = 300
"""Changes that the local search may try."""
NODES = 200
"""Graphs with more operators are coarsened to about so many."""
MARGINS = (1.0, 0.93, 0.85, 0.7)
"""Shares of the memory that the dynamic program, which knows it only roughly, may use, one by one."""
FEW = 4
"""Up to so many different devices are tried in every order."""


def place_stages(
    graph: OpGraph, topology: Topology, schedule: Schedule, budget: int = MOVES
) -> Pipeline | Infeasible:
    """The pipeline with the shortest step that was found."""
    if impossible(graph, topology) is None:
        found = _search(graph, topology, schedule, budget)
        if found is not None:
            return found
    one = alike([0], topology.links[0][0])
    enough = staged(graph, one, [0] * len(graph.ops), (0,), schedule, "").peaks[0]
    return explain(graph, topology, lambda more: _search(graph, more, schedule, 0) is not None, enough)


def staged(
    graph: OpGraph,
    topology: Topology,
    device_of: Sequence[int],
    stages: Sequence[int],
    schedule: Schedule,
    placer: str,
) -> Pipeline:
    """Return the pipeline of a given division, its devices in order; it may not fit."""
    number = {device: place for place, device in enumerate(stages)}
    rounds = Rounds(flow(graph, [number[one] for one in device_of], len(stages)), topology, stages, schedule)
    seconds = rounds.finish()
    return Pipeline(
        placer=placer,
        device_of=tuple(device_of),
        loads=loads(graph, topology, device_of),
        peaks=rounds.peaks(),
        bound=rounds_bound(graph, topology, schedule),
        stages=tuple(stages),
        schedule=schedule,
        turns=tuple(rounds.turns),
        messages=tuple(rounds.messages),
        seconds=seconds,
    )


def _search(graph: OpGraph, topology: Topology, schedule: Schedule, budget: int) -> Pipeline | None:
    """Coarse first; on the original operators if that finds nothing."""
    if len(graph.ops) > NODES:
        total = sum(op.seconds for op in graph.ops)
        smallest = min(device.memory for device in topology.devices)
        limit = Limit(NODES, smallest // 10, total / len(topology.devices) / 10)
        coarse = coarsen(graph, limit)
        if len(coarse.graph.ops) < len(graph.ops):
            rough = StagePartitioner(coarse.graph, topology, schedule).best(budget)
            if rough is not None:
                fine = StagePartitioner(graph, topology, schedule)
                start = fine.described(coarse.expanded(rough.device_of), rough.stages)
                if _fits(start, topology):
                    return fine.improved(start, budget // 3)
    return StagePartitioner(graph, topology, schedule).best(budget)


def _fits(plan: Pipeline, topology: Topology) -> bool:
    return all(peak <= one.memory for peak, one in zip(plan.peaks, topology.devices, strict=True))


class StagePartitioner:
    """The search on one graph."""

    def __init__(self, graph: OpGraph, topology: Topology, schedule: Schedule) -> None:
        self.graph = graph
        self.topology = topology
        self.schedule = schedule
        self.units = stage_units(graph)
        self._edges = sorted(forward_edges(graph, self.units))

    def best(self, budget: int) -> Pipeline | None:
        found = [plan for plan in self._cuts() if _fits(plan, self.topology)]
        if not found:
            return None
        return self.improved(min(found, key=lambda plan: plan.seconds), budget)

    def described(self, device_of: Sequence[int], stages: Iterable[int]) -> Pipeline:
        """Return the pipeline without empty stages."""
        used = set(device_of)
        there = [one for one in stages if one in used]
        return staged(self.graph, self.topology, device_of, there, self.schedule, "contiguous")

    def _cuts(self) -> Iterator[Pipeline]:
        seen: set[tuple[int, ...]] = set()
        for order in (breadth_first(self.graph, self.units), depth_first(self.graph, self.units)):
            if tuple(order) in seen:
                continue
            seen.add(tuple(order))
            for devices in device_orders(self.topology, self._most()):
                yield from self._cut(order, devices)

    def _most(self) -> int:
        """Stages that the schedule allows: 1F1B needs a micro-batch for each."""
        count = len(self.topology.devices)
        one_each = self.schedule.rhythm is Rhythm.ONE_F_ONE_B
        return min(count, self.schedule.micro_batches) if one_each else count

    def _cut(self, order: Sequence[int], devices: Sequence[int]) -> Iterator[Pipeline]:
        """The first cut that fits, with more and more margin."""
        table = stretches(self.graph, self.topology, self.units, order)
        batches, count = self.schedule.micro_batches, len(devices)
        gpipe = self.schedule.rhythm is Rhythm.GPIPE
        most = (batches if gpipe else min(batches, count - stage) for stage in range(count))
        tables = [table.in_flight(batches, one) for one in most]
        for margin in MARGINS:
            allowed = self.topology.scaled(margin)
            found = split(self.graph, allowed, self.units, order, tables, devices, evenest=True)
            if not isinstance(found, Assignment):
                return
            plan = self.described(found.device_of, devices)
            if _fits(plan, self.topology):
                yield plan
                return

    def improved(self, plan: Pipeline, budget: int) -> Pipeline:
        """Move units to other stages, from the busiest first, as long as the step gets shorter."""
        while budget > 0:
            better = None
            for unit, device in self._shifts(plan):
                if budget <= 0:
                    break
                budget -= 1
                moved = self._moved(plan, unit, device)
                if moved is not None:
                    better = moved
                    break
            if better is None:
                return plan
            plan = better
        return plan

    def _moved(self, plan: Pipeline, unit: int, device: int) -> Pipeline | None:
        device_of = list(plan.device_of)
        for op in self.units.members[unit]:
            device_of[op] = device
        moved = self.described(device_of, plan.stages)
        shorter = moved.seconds < plan.seconds * (1 - 1e-9)
        return moved if shorter and _fits(moved, self.topology) else None

    def _shifts(self, plan: Pipeline) -> Iterator[tuple[int, int]]:
        """(unit, another device) so that data still flows one way."""
        place = {device: stage for stage, device in enumerate(plan.stages)}
        at = [place[plan.device_of[members[0]]] for members in self.units.members]
        last = len(plan.stages) - 1
        lowest, highest = [0] * len(at), [last] * len(at)
        for one, two in self._edges:
            lowest[two] = max(lowest[two], at[one])
            highest[one] = min(highest[one], at[two])
        busiest = sorted(range(last + 1), key=lambda stage: -plan.loads[plan.stages[stage]])
        for stage in busiest:
            for unit, here in enumerate(at):
                if here == stage:
                    for there in range(lowest[unit], highest[unit] + 1):
                        if there != here:
                            yield unit, plan.stages[there]


def device_orders(topology: Topology, most: int) -> list[tuple[int, ...]]:
    """Devices for 1, 2, … up to so many stages; of choices that make no difference one."""
    every = range(len(topology.devices))
    found: dict[tuple[object, ...], tuple[int, ...]] = {}
    for count in range(1, most + 1):
        if len(topology.devices) <= FEW:
            choices: Iterable[tuple[int, ...]] = permutations(every, count)
        else:
            by_memory = sorted(every, key=lambda one: -topology.devices[one].memory)
            by_speed = sorted(every, key=lambda one: -topology.devices[one].speed)
            choices = (tuple(order[:count]) for order in (every, by_memory, by_speed))
        for choice in choices:
            found.setdefault(_nature(topology, choice), choice)
    return list(found.values())


def _nature(topology: Topology, choice: Sequence[int]) -> tuple[object, ...]:
    devices = tuple((topology.devices[one].memory, topology.devices[one].speed) for one in choice)
    links = ((topology.links[one][two], topology.links[two][one]) for one, two in pairwise(choice))
    return devices, tuple(links)
