"""Why there is no placement: which operator has no place, and how much memory would do."""

from collections.abc import Callable

from grus.partition.execution.placement_plan import Infeasible
from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import Units, units_of
from grus.partition.placers.memory_fit import footprints, least_of
from grus.partition.topology import Topology, alike

PRECISION = 0.01
"""Relative precision of the least memory."""


def impossible(graph: OpGraph, topology: Topology) -> int | None:
    """The operator that provably has no place: its group is larger than every device, or all together are
    larger than all devices (then the largest is named)."""
    units = units_of(graph)
    largest = max(range(len(units.members)), key=lambda unit: least_of(graph, units, unit))
    total = sum(op.permanent for op in graph.ops)
    alone = least_of(graph, units, largest) > topology.largest
    if alone or total > sum(device.memory for device in topology.devices):
        return _heaviest(graph, units, largest)
    return None


def explain(
    graph: OpGraph, topology: Topology, would_do: Callable[[Topology], bool], enough: int = 0
) -> Infeasible:
    """Explain why no placement exists.

    `would_do` returns whether a placement is found on other devices; `enough` holds all on one device.
    """
    units = units_of(graph)
    proof = impossible(graph, topology)
    low = max(least_of(graph, units, unit) for unit in range(len(units.members)))
    low = max(low, min(device.memory for device in topology.devices))
    # On one device that holds all at once, everything fits in any order.
    one = alike([0], topology.links[0][0])
    high = max(low, enough or footprints(graph, one, [0] * len(graph.ops))[0])
    if would_do(topology.raised(low)):
        high = low
    while high - low > max(1, PRECISION * high):
        middle = (low + high) // 2
        if would_do(topology.raised(middle)):
            high = middle
        else:
            low = middle
    if proof is None:
        largest = max(range(len(units.members)), key=lambda unit: least_of(graph, units, unit))
    blocking = proof if proof is not None else _heaviest(graph, units, largest)
    return Infeasible(graph.ops[blocking].name, high, proof is not None)


def _heaviest(graph: OpGraph, units: Units, unit: int) -> int:
    return max(units.members[unit], key=lambda op: graph.ops[op].permanent + graph.ops[op].temporary)
