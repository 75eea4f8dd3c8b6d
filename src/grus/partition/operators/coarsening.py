"""Graph coarsening: fewer, larger operators; neighbors are joined, chains and large tensors first.

    coarsen(graph, limit)  →  Coarse; `Coarse.expanded` maps a placement back to the original operators

Only operators without a second path between them are joined, so that no cycle appears: one of the two has no
other neighbor on that side. The passes do not count for each other, since no edge leads from the backward
pass to the forward one. Where operators are joined, their groups are, so that both passes stay alike. Joined
operators stay within limits, so that a coarse operator still fits and the devices can be loaded evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from grus.partition.graph import Op, OpGraph
from grus.partition.placers.memory_fit import working


@dataclass(frozen=True, slots=True)
class Limit:
    """Up to where operators are joined."""

    nodes: int
    """Joining ends when so few are left."""
    memory: int
    """Permanent bytes of operators that are tied to one device by being joined."""
    seconds: float
    """The same for their time."""


@dataclass(frozen=True, slots=True)
class Coarse:
    graph: OpGraph
    of: tuple[int, ...]
    """Coarse operator of each original one."""
    members: tuple[tuple[int, ...], ...]
    """Original operators of each coarse one, in topological order."""

    def expanded(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return values for the original operators, given those for the coarse ones."""
        return tuple(values[one] for one in self.of)

    def order(self, coarse: Sequence[int]) -> list[int]:
        """An order of the coarse operators as one of the original ones."""
        return [op for one in coarse for op in self.members[one]]


def coarsen(graph: OpGraph, limit: Limit) -> Coarse:
    joining = Joining(graph, limit)
    joining.join()
    number: dict[int, int] = {}
    for op in graph.topological:
        number.setdefault(joining.cluster.find(op), len(number))
    of = tuple(number[joining.cluster.find(op)] for op in range(len(graph.ops)))
    members: list[list[int]] = [[] for _ in number]
    for op in graph.topological:
        members[of[op]].append(op)
    ops = (_joined(graph, of, one, f"unit-{joining.unit.find(one[0])}") for one in members)
    edges = {(of[one], of[two]) for one, two in graph.edges if of[one] != of[two]}
    return Coarse(OpGraph(tuple(ops), tuple(sorted(edges))), of, tuple(map(tuple, members)))


class Sets:
    """Disjoint sets of numbers, the lowest number being a set's name."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, one: int) -> int:
        parent = self._parent
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    def join(self, one: int, two: int) -> tuple[int, int]:
        """(the name of both from now on, the name that is gone)"""
        first, second = sorted((self.find(one), self.find(two)))
        self._parent[second] = first
        return first, second


class Joining:
    """A coarsening under way: clusters of operators, and units of clusters that share a device."""

    def __init__(self, graph: OpGraph, limit: Limit) -> None:
        self.graph = graph
        self.limit = limit
        self.cluster = Sets(len(graph.ops))
        self.unit = Sets(len(graph.ops))
        self._left = len(graph.ops)
        self._memory = [op.permanent for op in graph.ops]
        self._seconds = [op.seconds for op in graph.ops]
        self._leaving = [[number] for number in range(len(graph.ops))]
        """Operators of each cluster whose outputs others read."""
        self._after: list[set[int]] = [set() for _ in graph.ops]
        self._before: list[set[int]] = [set() for _ in graph.ops]
        self._tie_groups()
        apart = _one_way(graph)
        for one, two in graph.edges:
            if not apart or graph.ops[one].backward == graph.ops[two].backward:
                self._after[one].add(two)
                self._before[two].add(one)

    def _tie_groups(self) -> None:
        first: dict[str, int] = {}
        for number, op in enumerate(self.graph.ops):
            if op.group:
                self._tie(first.setdefault(op.group, number), number)

    def _tie(self, one: int, two: int) -> None:
        if self.unit.find(one) != self.unit.find(two):
            kept, gone = self.unit.join(one, two)
            self._memory[kept] += self._memory[gone]
            self._seconds[kept] += self._seconds[gone]

    def join(self) -> None:
        """Chains first, in them the largest tensors, as long as the limits allow."""
        edges = ((one, two) for one, after in enumerate(self._after) for two in after)
        waiting = [(self._turn(one, two), one, two) for one, two in edges]
        heapify(waiting)
        while waiting and self._left > self.limit.nodes:
            turn, one, two = heappop(waiting)
            # An edge whose order has changed is in the heap once more.
            if two not in self._after[one] or turn != self._turn(one, two):
                continue
            if self._safe(one, two) and self._within(one, two):
                for edge in self._merge(one, two):
                    heappush(waiting, (self._turn(*edge), *edge))

    def _turn(self, one: int, two: int) -> tuple[bool, int]:
        """Lower is joined first. Nothing that could run side by side is lost where a chain is joined."""
        chain = len(self._after[one]) == 1 and len(self._before[two]) == 1
        return not chain, -self._flow(one, two)

    def _flow(self, one: int, two: int) -> int:
        """Bytes that go from one cluster to another."""
        find, consumers = self.cluster.find, self.graph.consumers
        leaving = (op for op in self._leaving[one] if any(find(reader) == two for reader in consumers[op]))
        return sum(self.graph.ops[op].output for op in leaving)

    def _safe(self, one: int, two: int) -> bool:
        return len(self._after[one]) == 1 or len(self._before[two]) == 1

    def _within(self, one: int, two: int) -> bool:
        first, second = self.unit.find(one), self.unit.find(two)
        if first == second:
            return True
        memory, seconds = (
            self._memory[first] + self._memory[second],
            self._seconds[first] + self._seconds[second],
        )
        return memory <= self.limit.memory and seconds <= self.limit.seconds

    def _merge(self, one: int, two: int) -> list[tuple[int, int]]:
        """Returns the edges of the new cluster: what was not safe or smaller before may be joined now."""
        self._left -= 1
        self._tie(one, two)
        kept, gone = self.cluster.join(one, two)
        for table, back in ((self._after, self._before), (self._before, self._after)):
            for neighbour in table[gone]:
                back[neighbour].discard(gone)
                back[neighbour].add(kept)
            table[kept] |= table[gone]
            table[gone] = set()
        for table in (self._after, self._before):
            table[kept] -= {kept, gone}
        find, consumers = self.cluster.find, self.graph.consumers
        self._leaving[kept] = [
            op
            for op in self._leaving[kept] + self._leaving[gone]
            if any(find(reader) != kept for reader in consumers[op])
        ]
        after, before = self._after[kept], self._before[kept]
        return [*((kept, other) for other in after), *((other, kept) for other in before)]


def _one_way(graph: OpGraph) -> bool:
    """Return whether no edge leads from the backward pass to the forward one."""
    return not any(graph.ops[one].backward and not graph.ops[two].backward for one, two in graph.edges)


def _joined(graph: OpGraph, of: Sequence[int], members: Sequence[int], group: str) -> Op:
    """One operator in place of several; it takes no less memory than they do one after the other."""
    ops = [graph.ops[number] for number in members]
    seconds = sum(op.seconds for op in ops)
    ends = [number for number in members if not graph.consumers[number]]
    read = [n for n in members if any(of[one] != of[n] for one in graph.consumers[n])]
    inside = working(graph, members, {*ends, *read})
    # Operators that take no time have no temporary bytes, and unread outputs stay beside read ones.
    stays = (0 if seconds else inside) + (sum(graph.ops[n].passing for n in ends) if read else 0)
    leaving = read or ends
    return Op(
        name=ops[0].name,
        seconds=seconds,
        permanent=sum(op.permanent for op in ops) + stays,
        temporary=inside if seconds else 0,
        output=sum(graph.ops[number].output for number in leaving),
        saved=not any(graph.ops[number].passing for number in leaving),
        group=group,
        backward=all(op.backward for op in ops),
        kept=sum(op.kept for op in ops),
    )
