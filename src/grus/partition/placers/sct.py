"""m-SCT: a linear program finds for each operator the child that should stay with it; m-ETF heeds that.

Small communication times (Hanen and Munier): x = 0 keeps a child on its parent's device, x = 1 sends.
"""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from grus.partition.graph import OpGraph
from grus.partition.placers.etf import List
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.topology import Topology


def sct(graph: OpGraph, topology: Topology, careful: bool) -> Assignment | NoRoom:
    return List(graph, topology, careful, favourites(graph, topology)).place()


def favourites(graph: OpGraph, topology: Topology) -> dict[int, int]:
    """Operator → the child to keep with it; every child has one parent at most."""
    if not graph.edges or len(topology.devices) < 2:
        return {}
    kept = _kept(graph, topology)
    children: dict[int, int] = {}
    parents: set[int] = set()
    for number in np.argsort(kept, kind="stable"):
        source, target = graph.edges[int(number)]
        if kept[number] < 0.5 and source not in children and target not in parents:
            children[source] = target
            parents.add(target)
    return children


class Rows:
    """The rows `coefficients · variables <= limit` of a linear program."""

    def __init__(self) -> None:
        self.limits: list[float] = []
        self._values: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []

    def add(self, limit: float, *terms: tuple[int, float]) -> None:
        for column, value in terms:
            self._rows.append(len(self.limits))
            self._columns.append(column)
            self._values.append(value)
        self.limits.append(limit)

    def matrix(self, columns: int) -> coo_array:
        shape = (len(self.limits), columns)
        return coo_array((self._values, (self._rows, self._columns)), shape=shape)


def _kept(graph: OpGraph, topology: Topology) -> np.ndarray:
    """The x of every edge. Variables: x of the edges, starts of the operators, the last end."""
    edges, ops = len(graph.edges), len(graph.ops)
    last = edges + ops
    unit = sum(op.seconds for op in graph.ops) or 1.0
    usual = topology.usual
    rows = Rows()
    for number, (source, target) in enumerate(graph.edges):
        sending = usual.seconds(graph.ops[source].output) / unit
        needed = graph.ops[source].seconds / unit
        rows.add(-needed, (edges + source, 1.0), (number, sending), (edges + target, -1.0))
    for number, op in enumerate(graph.ops):
        rows.add(-op.seconds / unit, (edges + number, 1.0), (last, -1.0))
    for ends in (0, 1):
        sides: dict[int, list[int]] = {}
        for number, edge in enumerate(graph.edges):
            sides.setdefault(edge[ends], []).append(number)
        for numbers in sides.values():
            rows.add(1.0 - len(numbers), *((number, -1.0) for number in numbers))
    goal = np.zeros(last + 1)
    goal[last] = 1.0
    limits = [(0.0, 1.0)] * edges + [(0.0, None)] * (ops + 1)
    matrix = rows.matrix(last + 1).tocsr()
    found = linprog(goal, matrix, rows.limits, bounds=limits)  # type: ignore[call-overload]  # stubs: no sparse
    # If the solver gives up there are no preferred placements, and m-SCT is m-ETF then.
    return np.ones(edges) if found.x is None else np.asarray(found.x[:edges])
