"""Local search: small changes to a placement, kept when the simulated step gets shorter.

What is moved are blocks of operators: along the chain of events that makes the step as long as it is, a block
goes to the device from which it waits for data, or away from the device for which it waits.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from grus.partition.graph import OpGraph
from grus.partition.plan import Plan
from grus.partition.schedule import Run, simulate
from grus.partition.topology import Topology
from grus.partition.units import Units

Block = tuple[int, ...]


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


class Search:
    """A search from one placement, with a number of simulations that it may use."""

    def __init__(
        self, graph: OpGraph, topology: Topology, plan: Plan, rank: Sequence[int], budget: int
    ) -> None:
        self.graph = graph
        self.topology = topology
        self.best = plan
        self.rank = rank
        self.budget = budget

    def descend(self, moved: Sequence[Block]) -> None:
        """Take the first change that helps, again and again, until none does or the budget is used up."""
        block_of = {op: block for block in moved for op in block}
        while self.budget > 0 and self._step(block_of):
            pass

    def _step(self, block_of: dict[int, Block]) -> bool:
        tried = set()
        for op, device in moves(self.graph, self.topology, self.best):
            block = block_of[op]
            if (block, device) in tried or self.budget <= 0:
                continue
            tried.add((block, device))
            if self._try(block, device):
                return True
        return False

    def _try(self, block: Block, device: int) -> bool:
        device_of = list(self.best.device_of)
        for op in block:
            device_of[op] = device
        self.budget -= 1
        run = Run(self.graph, self.topology, device_of, self.rank)
        if run.finish() >= self.best.seconds * (1 - 1e-9):
            return False
        plan = simulate(self.graph, self.topology, device_of, self.rank, self.best.placer)
        if not fits(plan, self.topology):
            return False
        self.best = plan
        return True


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
