"""Local search: small changes to a placement, kept when the simulated step gets shorter.

What is moved are blocks of operators: along the chain of events that makes the step as long as it is, a block
goes to the device from which it waits for data, or away from the device for which it waits.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from grus.partition.execution.placement_plan import Plan
from grus.partition.execution.simulate_step import StepSimulation, simulate
from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import Units
from grus.partition.topology import Topology

Block = tuple[int, ...]
PENALTY = 5.0
"""A device that needs a tenth more than it has makes a step count as half as long again."""


def fits(plan: Plan, topology: Topology) -> bool:
    return all(peak <= device.memory for peak, device in zip(plan.peaks, topology.devices, strict=True))


def blocks(graph: OpGraph, units: Units, most: int) -> list[Block]:
    """Units joined over their largest tensors, as long as a block's permanent bytes stay within `most`."""
    parent = list(range(len(units.members)))
    size = [sum(graph.ops[op].permanent for op in members) for members in units.members]

    def find(unit: int) -> int:
        while parent[unit] != unit:
            parent[unit] = parent[parent[unit]]
            unit = parent[unit]
        return unit

    for source, target in sorted(graph.edges, key=lambda edge: -graph.ops[edge[0]].output):
        one, two = find(units.of[source]), find(units.of[target])
        if one != two and size[one] + size[two] <= most:
            parent[two] = one
            size[one] += size[two]
    found: dict[int, list[int]] = {}
    for unit, members in enumerate(units.members):
        found.setdefault(find(unit), []).extend(members)
    return [tuple(one) for one in found.values()]


def overflow(plan: Plan, topology: Topology) -> float:
    """Bytes above what devices have, as shares of what each has; 0 when the plan fits."""
    pairs = zip(plan.peaks, topology.devices, strict=True)
    return sum(max(0, peak - one.memory) / max(1, one.memory) for peak, one in pairs)


class PlacementSearch:
    """Local search from one placement, with a limited number of simulations.

    It may pass through placements that do not fit: overflow counts as a longer step. `best` is the shortest
    that fits, None as long as there is none.
    """

    def __init__(
        self, graph: OpGraph, topology: Topology, plan: Plan, rank: Sequence[int], budget: int
    ) -> None:
        self.graph = graph
        self.topology = topology
        self.rank = rank
        self.budget = budget
        self.plan = plan
        self.cost = self._cost(plan)
        self.best = plan if fits(plan, topology) else None

    def _cost(self, plan: Plan) -> float:
        return plan.seconds * (1 + PENALTY * overflow(plan, self.topology))

    def descend(self, moved: Sequence[Block]) -> None:
        """Take the first change that helps, again and again, until none does or the budget is used up."""
        block_of = {op: block for block in moved for op in block}
        while self.budget > 0 and self._step(block_of):
            pass

    def _step(self, block_of: dict[int, Block]) -> bool:
        tried = set()
        for op, device in self._moves(block_of):
            block = block_of[op]
            if (block, device) in tried or self.plan.device_of[op] == device:
                continue
            if self.budget <= 0:
                break
            tried.add((block, device))
            if self._try(block, device):
                return True
        return False

    def _moves(self, block_of: dict[int, Block]) -> Iterator[tuple[int, int]]:
        if self.best is not self.plan:
            yield from reliefs(self.graph, self.topology, self.plan, set(block_of.values()))
        yield from moves(self.graph, self.topology, self.plan)

    def _try(self, block: Block, device: int) -> bool:
        device_of = list(self.plan.device_of)
        for op in block:
            device_of[op] = device
        self.budget -= 1
        run = StepSimulation(self.graph, self.topology, device_of, self.rank)
        seconds = run.finish()
        if seconds >= self.cost * (1 - 1e-9):
            return False
        self.budget -= 1  # the memory takes about as long again
        plan = simulate(self.graph, self.topology, device_of, self.rank, self.plan.placer)
        cost = self._cost(plan)
        if cost >= self.cost * (1 - 1e-9):
            return False
        self.plan, self.cost = plan, cost
        if fits(plan, self.topology) and (self.best is None or plan.seconds < self.best.seconds):
            self.best = plan
        return True


def reliefs(
    graph: OpGraph, topology: Topology, plan: Plan, moved: Collection[Block]
) -> Iterator[tuple[int, int]]:
    """Yield (operator, device) moves that take memory off a device that has too little: blocks whose tensors
    cross a border already come first, then the largest.
    """
    for here, device in enumerate(topology.devices):
        excess = plan.peaks[here] - device.memory
        if excess <= 0:
            continue
        there = [block for block in moved if plan.device_of[block[0]] == here]
        there.sort(key=lambda block: (-_border(graph, plan, block), block))
        for block in there:
            for target in range(len(topology.devices)):
                if target != here:
                    yield block[0], target


def _border(graph: OpGraph, plan: Plan, block: Block) -> int:
    """Bytes between a block and other devices."""
    here = plan.device_of[block[0]]
    total = 0
    for op in block:
        total += sum(graph.ops[one].output for one in graph.inputs[op] if plan.device_of[one] != here)
        if any(plan.device_of[one] != here for one in graph.consumers[op]):
            total += graph.ops[op].output
    return total


def moves(graph: OpGraph, topology: Topology, plan: Plan) -> Iterator[tuple[int, int]]:
    """(operator, device) that might shorten the step, from the end of its critical chain backwards."""
    arrival = {(one.producer, one.target): one.end for one in plan.transfers}
    before = {two: one for row in plan.order for one, two in pairwise(row)}
    op: int | None = max(range(len(plan.end)), key=lambda one: plan.end[one])
    while op is not None:
        here = plan.device_of[op]
        source, time = _latest_input(graph, plan, arrival, op)
        previous = before.get(op)
        if source is not None and (previous is None or time >= plan.end[previous]):
            there = plan.device_of[source]
            if there != here:
                yield op, there
                yield source, here
            op = source
        else:
            if previous is not None:
                for device in range(len(topology.devices)):
                    if device != here:
                        yield op, device
                        yield previous, device
            op = previous


def _latest_input(
    graph: OpGraph, plan: Plan, arrival: dict[tuple[int, int], float], op: int
) -> tuple[int | None, float]:
    here = plan.device_of[op]
    latest: tuple[int | None, float] = (None, -1.0)
    for source in graph.inputs[op]:
        time = plan.end[source] if plan.device_of[source] == here else arrival[source, here]
        if time > latest[1]:
            latest = (source, time)
    return latest
