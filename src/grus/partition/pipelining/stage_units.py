"""Units that a pipeline may put into different stages, and the load of each device."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import (
    Units,
    forward_edges,
    units_of,
)
from grus.partition.topology import Topology


def loads(graph: OpGraph, topology: Topology, device_of: Sequence[int]) -> tuple[float, ...]:
    """Seconds of work, sending and receiving of each device for a micro-batch."""
    busy = [0.0] * len(topology.devices)
    for number, op in enumerate(graph.ops):
        home = device_of[number]
        busy[home] += op.seconds / topology.devices[home].speed
        for target in {device_of[one] for one in graph.consumers[number]} - {home}:
            sending = topology.links[home][target].seconds(op.output)
            busy[home] += sending
            busy[target] += sending
    return tuple(busy)


def stage_units(graph: OpGraph) -> Units:
    """Units that may lie in different stages: groups that data flows between to and fro are joined."""
    units = units_of(graph)
    edges = sorted(forward_edges(graph, units))
    count = len(units.members)
    ends = ([one for one, _ in edges], [two for _, two in edges])
    matrix = coo_array((np.ones(len(edges)), ends), shape=(count, count))
    parts, labels = connected_components(matrix.tocsr(), directed=True, connection="strong")
    if parts == count:
        return units
    first: dict[int, int] = {}
    of = [first.setdefault(int(labels[units.of[op]]), len(first)) for op in graph.topological]
    members: list[list[int]] = [[] for _ in first]
    for op, unit in zip(graph.topological, of, strict=True):
        members[unit].append(op)
    number = dict(zip(graph.topological, of, strict=True))
    return Units(tuple(number[op] for op in range(len(graph.ops))), tuple(map(tuple, members)))
