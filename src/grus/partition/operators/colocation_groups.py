"""Placement units: groups of operators that share a device, and orders in which they can be laid out."""

from dataclasses import dataclass

from grus.partition.graph import OpGraph, first_order


@dataclass(frozen=True, slots=True)
class Units:
    """Each group is a unit, and so is each operator without one; numbered as they first appear."""

    of: tuple[int, ...]
    """Unit of each operator."""
    members: tuple[tuple[int, ...], ...]


def units_of(graph: OpGraph) -> Units:
    numbers: dict[str, int] = {}
    members: list[list[int]] = []
    of = [0] * len(graph.ops)
    for op in graph.topological:
        group = graph.ops[op].group
        number = numbers.setdefault(group, len(members)) if group else len(members)
        if number == len(members):
            members.append([])
        members[number].append(op)
        of[op] = number
    return Units(tuple(of), tuple(map(tuple, members)))


def forward_edges(graph: OpGraph, units: Units) -> set[tuple[int, int]]:
    """Between units, in the direction of the forward pass: edges of the backward pass are turned round."""
    found = set()
    for source, target in graph.edges:
        if graph.ops[source].backward == graph.ops[target].backward:
            ends = (units.of[source], units.of[target])
            found.add(ends[::-1] if graph.ops[source].backward else ends)
    return {(one, two) for one, two in found if one != two}


def breadth_first(graph: OpGraph, units: Units) -> list[int]:
    """Units so that forward data flows one way; as they first appear when tied weights forbid that."""
    inputs, consumers = _neighbours(graph, units)
    order = first_order(inputs, consumers)
    return order if len(order) == len(units.members) else list(range(len(units.members)))


def depth_first(graph: OpGraph, units: Units) -> list[int]:
    """Return units like `breadth_first`, but follow a branch to its end before the next one starts."""
    inputs, consumers = _neighbours(graph, units)
    missing = [len(one) for one in inputs]
    ready = [number for number in range(len(missing) - 1, -1, -1) if not missing[number]]
    order = []
    while ready:
        number = ready.pop()
        order.append(number)
        for consumer in sorted(consumers[number], reverse=True):
            missing[consumer] -= 1
            if not missing[consumer]:
                ready.append(consumer)
    return order if len(order) == len(units.members) else list(range(len(units.members)))


def _neighbours(graph: OpGraph, units: Units) -> tuple[list[list[int]], list[list[int]]]:
    inputs: list[list[int]] = [[] for _ in units.members]
    consumers: list[list[int]] = [[] for _ in units.members]
    for source, target in sorted(forward_edges(graph, units)):
        inputs[target].append(source)
        consumers[source].append(target)
    return inputs, consumers
