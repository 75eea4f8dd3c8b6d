"""Series bound: a lower bound that includes the cost of spreading, from a chain of operators.

Operators of a chain (one leads to the next) run one after the other, and so do the stretches between them:
all operators that one of them leads to and that lead to the next. Any chain gives a bound; here the chain is
made of the operators of the longest path beside which hardly anything can run. A stretch with branches takes
at least as long as its best division into operators at home, on the device of the operator at its end, and
operators elsewhere. Data that goes there and returns takes its time, and operators that stay run one after
the other. All divisions of a few branches are tried; a stretch with many of them counts as its longest path.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from grus.partition.graph import OpGraph
from grus.partition.topology import Topology

BRANCHES = 7
"""Stretches with more branches than this are not divided."""
ASIDE = (0.0, 0.0005, 0.002, 0.01)
"""Shares of the work that may run beside an operator of the series, each of which gives a bound."""
Times = NDArray[np.float64]
Choices = NDArray[np.bool_]


def series_bound(
    graph: OpGraph, topology: Topology, before: Sequence[float], after: Sequence[float]
) -> float:
    """`before` and `after`: of each operator the longest path up to it and from it on, at the best speed."""
    if len(topology.devices) < 2:
        return 0.0
    series = SeriesGraph(graph, topology)
    chains = {tuple(series.chain(before, after, aside)) for aside in ASIDE}
    return max((_length(graph, topology, series, one, before, after) for one in chains if one), default=0.0)


def _length(
    graph: OpGraph,
    topology: Topology,
    series: "SeriesGraph",
    chain: Sequence[int],
    before: Sequence[float],
    after: Sequence[float],
) -> float:
    itself = sum(graph.ops[op].seconds for op in chain[:-1]) / topology.fastest
    between = sum(series.stretch(one, two) for one, two in pairwise(chain))
    return before[chain[0]] + itself + between + after[chain[-1]]


@dataclass(frozen=True, slots=True)
class Branch:
    """Operators of a stretch that follow each other without a fork or a join between them."""

    ops: tuple[int, ...]
    sources: tuple[int, ...]
    """Operators whose output the first one reads: the last ones of other branches, or the stretch's start."""


@dataclass(frozen=True, slots=True)
class BranchChoices:
    """Location of a branch, in all divisions at once."""

    away: Choices
    """Its last operator is elsewhere."""
    both: Choices
    """Some of it is at home and some elsewhere."""


class SeriesGraph:
    """Reachability between operators, and their times at the best speed and over the best link."""

    def __init__(self, graph: OpGraph, topology: Topology) -> None:
        self.graph = graph
        self._others = len(topology.devices) - 1
        self._links = topology.pairs
        self._seconds = [op.seconds / topology.fastest for op in graph.ops]
        self._place = {op: place for place, op in enumerate(graph.topological)}
        self._after, self._before = _reach(graph)

    def _sending(self, op: int) -> float:
        return min(link.seconds(self.graph.ops[op].output) for link in self._links)

    def chain(self, before: Sequence[float], after: Sequence[float], aside: float) -> list[int]:
        """Operators of the longest path beside which hardly anything can run, one leading to the next."""
        longest = max(one + two for one, two in zip(before, after, strict=True))
        everything = (1 << len(before)) - 1
        allowed = aside * sum(self._seconds)
        found: list[int] = []
        for op in self.graph.topological:
            on_path = before[op] + after[op] >= longest * (1 - 1e-9)
            if not on_path or (found and not self._after[found[-1]] >> op & 1):
                continue
            beside = everything & ~(self._after[op] | self._before[op] | 1 << op)
            if sum(self._seconds[one] for one in _bits(beside)) <= allowed:
                found.append(op)
        return found

    def stretch(self, first: int, last: int) -> float:
        """Seconds from the end of the first operator to the start of the last, at least."""
        members = sorted(_bits(self._after[first] & self._before[last]), key=self._place.__getitem__)
        straight = self._straight(last, members)
        total = sum(self._seconds[op] for op in members)
        if total <= straight * (1 + 1e-9):
            return straight
        branches = self._branches(first, last, members)
        if len(branches) > BRANCHES:
            return max(straight, total / (self._others + 1))
        return max(straight, float(self._divided(first, last, branches).min()))

    def _straight(self, last: int, members: Sequence[int]) -> float:
        """The longest path."""
        ends: dict[int, float] = {}
        for op in members:
            ends[op] = self._seconds[op] + max(ends.get(one, 0.0) for one in self.graph.inputs[op])
        return max(ends.get(one, 0.0) for one in self.graph.inputs[last])

    def _branches(self, first: int, last: int, members: Sequence[int]) -> list[Branch]:
        inside = {*members, first, last}
        inputs = {op: [one for one in self.graph.inputs[op] if one in inside] for op in inside}
        readers = {op: [one for one in self.graph.consumers[op] if one in inside] for op in inside}
        found: list[list[int]] = []
        at: dict[int, int] = {}
        for op in members:
            source = inputs[op][0]
            if len(inputs[op]) == 1 and source != first and len(readers[source]) == 1:
                at[op] = at[source]
                found[at[op]].append(op)
            else:
                at[op] = len(found)
                found.append([op])
        return [Branch(tuple(one), tuple(inputs[one[0]])) for one in found]

    def _divided(self, first: int, last: int, branches: Sequence[Branch]) -> Times:
        """Return the least time of every division."""
        away, divisions = _divisions(branches)
        start = BranchChoices(away, np.zeros_like(away))
        where = {first: start} | {one.ops[-1]: two for one, two in zip(branches, divisions, strict=True)}
        end = {first: np.zeros(len(away))}
        for branch, here in zip(branches, divisions, strict=True):
            arrivals = [end[one] + self._way(branch, here, one, where[one]) for one in branch.sources]
            work = sum(self._seconds[op] for op in branch.ops) + here.both * self._inner(branch)
            end[branch.ops[-1]] = np.maximum.reduce(arrivals) + work
        sources = [one for one in self.graph.inputs[last] if one in end]
        paths = [end[one] + where[one].away * self._sending(one) for one in sources]
        loads, channels = self._loads(branches, divisions), self._channels(last, branches, where)
        least: Times = np.maximum.reduce([*paths, *loads, *channels])
        return least

    def _inner(self, branch: Branch) -> float:
        """The cheapest tensor inside a branch; it is sent if the branch is at home and elsewhere."""
        return min((self._sending(op) for op in branch.ops[:-1]), default=0.0)

    def _way(self, branch: Branch, here: BranchChoices, source: int, there: BranchChoices) -> Times:
        """Return the time from a source into a branch.

        A branch in both places that ends where its source is sends twice.
        """
        sending, apart = self._sending(source), here.away != there.away
        twice = min(sending, self._inner(branch))
        return np.where(here.both, np.where(apart, 0.0, twice), np.where(apart, sending, 0.0))

    def _loads(self, branches: Sequence[Branch], divisions: Sequence[BranchChoices]) -> Iterator[Times]:
        """Yield the load at home, and an even share of the load elsewhere."""
        home = other = np.zeros(len(divisions[0].away))
        for branch, here in zip(branches, divisions, strict=True):
            whole, last = sum(self._seconds[op] for op in branch.ops), self._seconds[branch.ops[-1]]
            work = np.where(here.both, last, whole)
            home = home + np.where(here.away, 0.0, work)
            other = other + np.where(here.away, work, 0.0)
        yield home
        yield other / self._others

    def _channels(
        self, last: int, branches: Sequence[Branch], where: dict[int, BranchChoices]
    ) -> Iterator[Times]:
        """Yield the time of data that comes home over its one channel, and of data that leaves it."""
        count = len(next(iter(where.values())).away)
        comes = leaves = np.zeros(count)
        for source, there in where.items():
            read = [where[one.ops[-1]] for one in branches if source in one.sources]
            wanted = np.full(count, source in self.graph.inputs[last])
            given = np.zeros(count, dtype=bool)
            for here in read:
                wanted |= ~here.away & ~here.both
                given |= here.away & ~here.both
            sending = self._sending(source)
            comes = comes + (there.away & wanted) * sending
            leaves = leaves + (~there.away & given) * sending
        yield comes
        yield leaves


def _divisions(branches: Sequence[Branch]) -> tuple[Choices, list[BranchChoices]]:
    """Return, for all divisions, whether the start is elsewhere, and the location of each branch."""
    sizes = [2, *(4 if len(one.ops) > 1 else 2 for one in branches)]
    grid = np.indices(sizes).reshape(len(sizes), -1)
    return grid[0] == 1, [BranchChoices(row % 2 == 1, row >= 2) for row in grid[1:]]


def _reach(graph: OpGraph) -> tuple[list[int], list[int]]:
    """Return, for each operator, its successors and its predecessors, as bits."""
    after, before = [0] * len(graph.ops), [0] * len(graph.ops)
    for op in graph.topological:
        for one in graph.inputs[op]:
            before[op] |= before[one] | 1 << one
    for op in reversed(graph.topological):
        for one in graph.consumers[op]:
            after[op] |= after[one] | 1 << one
    return after, before


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
