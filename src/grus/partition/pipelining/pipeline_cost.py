"""Data flow of a division into stages: the seconds and resident bytes of each, and the bytes between them.

Data goes from a stage to the next one only; data for a later stage passes through those between. All data
that crosses a border in one direction for one micro-batch is one message.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.partition.graph import OpGraph
from grus.partition.placers.memory_fit import working


@dataclass(frozen=True, slots=True)
class StageCost:
    """Stage costs: seconds on a device of speed 1; bytes of one micro-batch unless stated otherwise."""

    forward: float
    backward: float
    once: int
    """Bytes that are there however many micro-batches are in flight: weights and what belongs to them."""
    kept: int
    """Bytes kept from the forward turn to the end of the
    backward one: saved activations, outputs read by others.
    """
    gives: int
    """Bytes that the backward turn makes for earlier stages, until they are sent."""
    works: tuple[int, int]
    """The most at once beside all that, while a forward or a backward turn runs."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Borders lie between a stage and the next one."""

    stages: tuple[StageCost, ...]
    onward: tuple[int, ...]
    """Bytes over each border in the forward pass."""
    back: tuple[int, ...]
    """Bytes over each border in the backward pass."""

    def received(self, stage: int) -> int:
        """Bytes that a stage receives for a micro-batch; there is a place for each batch's from the start."""
        before = self.onward[stage - 1] if stage else 0
        return before + (self.back[stage] if stage < len(self.back) else 0)


def flow(graph: OpGraph, stage_of: Sequence[int], count: int) -> Flow:
    """`stage_of`: for each operator the number of its stage."""
    members: list[list[int]] = [[] for _ in range(count)]
    for op in graph.topological:
        members[stage_of[op]].append(op)
    stages = tuple(_stage(graph, stage_of, one) for one in members)
    onward, back = _borders(graph, stage_of, count)
    return Flow(stages, onward, back)


def _borders(graph: OpGraph, stage_of: Sequence[int], count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    onward, back = [0] * max(0, count - 1), [0] * max(0, count - 1)
    for number, op in enumerate(graph.ops):
        home = stage_of[number]
        places = [stage_of[one] for one in graph.consumers[number]]
        for border in range(home, max(places, default=home)):
            onward[border] += op.output
        for border in range(min(places, default=home), home):
            back[border] += op.output
    return tuple(onward), tuple(back)


def _stage(graph: OpGraph, stage_of: Sequence[int], members: Sequence[int]) -> StageCost:
    first = [op for op in members if not graph.ops[op].backward]
    second = [op for op in members if graph.ops[op].backward]
    held = {op for op in first if _outlives(graph, stage_of, op)}
    sent = {op for op in second if any(stage_of[one] != stage_of[op] for one in graph.consumers[op])}
    return StageCost(
        forward=sum(graph.ops[op].seconds for op in first),
        backward=sum(graph.ops[op].seconds for op in second),
        once=sum(graph.ops[op].permanent - graph.ops[op].kept for op in members),
        kept=sum(graph.ops[op].kept for op in members) + sum(graph.ops[op].passing for op in held),
        gives=sum(graph.ops[op].passing for op in sent),
        works=(working(graph, first, held), working(graph, second, sent)),
    )


def _outlives(graph: OpGraph, stage_of: Sequence[int], op: int) -> bool:
    """A forward operator's output is needed after the forward turn: elsewhere, or by the backward pass."""
    readers = graph.consumers[op]
    return any(stage_of[one] != stage_of[op] or graph.ops[one].backward for one in readers) or not readers
