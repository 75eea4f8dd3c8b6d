"""Lower bounds on the step time of any placement; they need no search."""

from collections.abc import Sequence

from grus.partition.execution.placement_plan import Schedule
from grus.partition.graph import OpGraph
from grus.partition.operators.colocation_groups import Units, units_of
from grus.partition.placers.series_bound import series_bound
from grus.partition.topology import Topology


def step_bound(graph: OpGraph, topology: Topology) -> float:
    """Seconds that every placement's step takes at least.

    The longest path, all work shared evenly, the largest group on one device – each at the best speed; the
    longest path with what spreading its branches costs (`series_bound`); and, when memory forces a connected
    part of the model apart, the path through the cheapest tensor to send.
    """
    units = units_of(graph)
    before, after = heads(graph, topology.fastest), tails(graph, topology.fastest)
    return max(
        max(one + two for one, two in zip(before, after, strict=True)),
        series_bound(graph, topology, before, after),
        _shared(graph, topology),
        _largest_unit(graph, topology, units),
        _forced(graph, topology, units),
    )


def load_bound(graph: OpGraph, topology: Topology) -> float:
    """Seconds that the most loaded device of every pipeline has at least."""
    return max(_shared(graph, topology), _largest_unit(graph, topology, units_of(graph)))


def rounds_bound(graph: OpGraph, topology: Topology, schedule: Schedule) -> float:
    """Seconds that a step of micro-batches takes at least, however the model is cut into stages.

    Before a stage's first turn and after its last one, a micro-batch passes through all stages before it. So
    if stage s works w(s) on a micro-batch, m of them take m w(s) + w(0) + … + w(s - 1) or more. The least for
    n stages that share the work w is w / (1 - (1 - 1/m)^n).
    """
    batches, fastest = schedule.micro_batches, topology.fastest
    work = sum(op.seconds for op in graph.ops) / fastest
    filling = work / (1 - (1 - 1 / batches) ** len(topology.devices))
    return max(filling, batches * load_bound(graph, topology), max(through(graph, fastest)))


def heads(graph: OpGraph, speed: float) -> list[float]:
    """Return, for each operator, the longest path that ends just before it."""
    found = [0.0] * len(graph.ops)
    for op in graph.topological:
        ways = (found[one] + graph.ops[one].seconds / speed for one in graph.inputs[op])
        found[op] = max(ways, default=0.0)
    return found


def tails(graph: OpGraph, speed: float) -> list[float]:
    """Return, for each operator, the longest path that starts with it."""
    found = [0.0] * len(graph.ops)
    for op in reversed(graph.topological):
        longest = max((found[one] for one in graph.consumers[op]), default=0.0)
        found[op] = graph.ops[op].seconds / speed + longest
    return found


def through(graph: OpGraph, speed: float) -> list[float]:
    """Return, for each operator, the longest path through it."""
    return [one + two for one, two in zip(heads(graph, speed), tails(graph, speed), strict=True)]


def _shared(graph: OpGraph, topology: Topology) -> float:
    return sum(op.seconds for op in graph.ops) / sum(device.speed for device in topology.devices)


def _largest_unit(graph: OpGraph, topology: Topology, units: Units) -> float:
    sums = (sum(graph.ops[one].seconds for one in members) for members in units.members)
    return max(sums) / topology.fastest


def _forced(graph: OpGraph, topology: Topology, units: Units) -> float:
    """0, or the cheapest path over a tensor sent between devices if some connected part fits on none."""
    if len(topology.devices) < 2:
        return 0.0
    before, after = heads(graph, topology.fastest), tails(graph, topology.fastest)
    pairs = topology.pairs
    part = _parts(graph)
    found = 0.0
    for number in set(part):
        ops = [op for op in range(len(graph.ops)) if part[op] == number]
        if sum(graph.ops[op].permanent for op in ops) <= topology.largest:
            continue
        cuts = (
            before[source]
            + graph.ops[source].seconds / topology.fastest
            + min(link.seconds(graph.ops[source].output) for link in pairs)
            + after[target]
            for source, target in graph.edges
            if part[source] == number and units.of[source] != units.of[target]
        )
        found = max(found, min(cuts, default=0.0))
    return found


def _parts(graph: OpGraph) -> list[int]:
    """Return, for each operator, the connected part of the model that it belongs to."""
    part = list(range(len(graph.ops)))

    def find(op: int) -> int:
        while part[op] != op:
            part[op] = part[part[op]]
            op = part[op]
        return op

    for source, target in graph.edges:
        part[find(source)] = find(target)
    return [find(op) for op in range(len(part))]


def priorities(graph: OpGraph, topology: Topology) -> list[int]:
    """An order that takes first what has most work behind it; ties as in the topological order."""
    behind = tails(graph, topology.fastest)
    place: Sequence[int] = graph.topological
    return sorted(place, key=lambda op: -behind[op])
