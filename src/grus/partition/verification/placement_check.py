"""Verifies an answer from its own timeline, with no part of the simulator or the placers.

Every function names what is wrong; an empty list means that the answer holds. Times may differ by rounding.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from grus.partition.execution.placement_plan import Pipeline, Plan
from grus.partition.graph import OpGraph
from grus.partition.topology import Topology
from grus.partition.verification.pipeline_check import schedule_faults
from grus.partition.verification.tolerances import ROUNDING, Holding, most_at_once


def faults(graph: OpGraph, topology: Topology, plan: Plan) -> list[str]:
    """All that is wrong with a plan for one step."""
    found = place_faults(graph, topology, plan.device_of)
    if found:
        return found
    slack = ROUNDING * max(1e-9, plan.seconds)
    found += _orders(graph, plan, slack)
    found += _durations(graph, topology, plan, slack)
    found += _arrivals(graph, plan, slack)
    found += _channels(plan, slack)
    found += _memory(graph, topology, plan)
    if abs(max(plan.end) - plan.seconds) > slack:
        found.append(f"the step ends at {max(plan.end)}, not at {plan.seconds}")
    if plan.bound > plan.seconds + slack:
        found.append(f"the bound {plan.bound} is above the step's {plan.seconds}")
    return found


def place_faults(graph: OpGraph, topology: Topology, device_of: Sequence[int]) -> list[str]:
    if len(device_of) != len(graph.ops):
        return [f"{len(graph.ops)} operators, but {len(device_of)} places"]
    found = []
    homes: dict[str, set[int]] = {}
    for op, device in zip(graph.ops, device_of, strict=True):
        if not 0 <= device < len(topology.devices):
            found.append(f"{op.name} is on device {device}, which does not exist")
        if op.group:
            homes.setdefault(op.group, set()).add(device)
    return found + [f"group {name} is torn apart" for name, places in homes.items() if len(places) > 1]


def _orders(graph: OpGraph, plan: Plan, slack: float) -> list[str]:
    found = []
    listed = [op for row in plan.order for op in row]
    if sorted(listed) != list(range(len(graph.ops))):
        found.append("the orders do not hold every operator once")
    for device, row in enumerate(plan.order):
        found += [f"{graph.ops[op].name} runs elsewhere" for op in row if plan.device_of[op] != device]
        for first, second in pairwise(row):
            if plan.start[second] < plan.end[first] - slack:
                found.append(f"{graph.ops[second].name} starts before {graph.ops[first].name} ended")
    return found


def _durations(graph: OpGraph, topology: Topology, plan: Plan, slack: float) -> list[str]:
    found = []
    for number, op in enumerate(graph.ops):
        needed = op.seconds / topology.devices[plan.device_of[number]].speed
        if plan.start[number] < -slack or abs(plan.end[number] - plan.start[number] - needed) > slack:
            found.append(f"{op.name} does not take {needed} s")
    for one in plan.transfers:
        link = topology.links[plan.device_of[one.producer]][one.target]
        needed = link.latency + link.seconds_per_byte * graph.ops[one.producer].output
        if abs(one.end - one.start - needed) > slack:
            found.append(f"the transfer of {graph.ops[one.producer].name} does not take {needed} s")
    return found


def _arrivals(graph: OpGraph, plan: Plan, slack: float) -> list[str]:
    """Every input is there before its consumer starts, and no tensor goes twice to a device."""
    found = []
    arrived: dict[tuple[int, int], float] = {}
    for one in plan.transfers:
        name = graph.ops[one.producer].name
        if one.start < plan.end[one.producer] - slack:
            found.append(f"{name} is sent before it is made")
        if (one.producer, one.target) in arrived or one.target == plan.device_of[one.producer]:
            found.append(f"{name} is sent to device {one.target} once too often")
        arrived[one.producer, one.target] = one.end
    for source, target in graph.edges:
        there = plan.device_of[target]
        local = plan.device_of[source] == there
        time = plan.end[source] if local else arrived.get((source, there), float("inf"))
        if plan.start[target] < time - slack:
            found.append(f"{graph.ops[target].name} starts before {graph.ops[source].name} is there")
    return found


def _channels(plan: Plan, slack: float) -> list[str]:
    rows: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for one in plan.transfers:
        rows.setdefault(("sends", plan.device_of[one.producer]), []).append((one.start, one.end))
        rows.setdefault(("receives", one.target), []).append((one.start, one.end))
    return [
        f"device {device} {what} two tensors at once"
        for (what, device), spans in rows.items()
        for first, second in pairwise(sorted(spans))
        if second[0] < first[1] - slack
    ]


def _memory(graph: OpGraph, topology: Topology, plan: Plan) -> list[str]:
    found = []
    for device, limit in enumerate(topology.devices):
        ops = [number for number, place in enumerate(plan.device_of) if place == device]
        base = sum(graph.ops[number].permanent for number in ops)
        peak = base + most_at_once([*_held(graph, plan, device)])
        if peak > limit.memory:
            found.append(f"{limit.name} needs {peak} bytes and has {limit.memory}")
        if peak != plan.peaks[device]:
            found.append(f"{limit.name} needs {peak} bytes, not {plan.peaks[device]}")
    return found


def _held(graph: OpGraph, plan: Plan, device: int) -> Iterable[Holding]:
    """Yield the bytes that are on a device for a part of the step."""
    for number, op in enumerate(graph.ops):
        readers = [plan.end[one] for one in graph.consumers[number] if plan.device_of[one] == device]
        if plan.device_of[number] == device:
            yield plan.start[number], plan.end[number], op.temporary
            sent = [one.end for one in plan.transfers if one.producer == number]
            last = max([plan.end[number], *readers, *sent]) if graph.consumers[number] else plan.seconds
            yield plan.start[number], last, 0 if op.saved else op.output
        for one in plan.transfers:
            if one.producer == number and one.target == device:
                yield one.start, max(readers, default=one.end), op.output


def pipeline_faults(graph: OpGraph, topology: Topology, plan: Pipeline) -> list[str]:
    """All that is wrong with a pipeline."""
    return place_faults(graph, topology, plan.device_of) or [
        *stage_faults(graph, topology, plan.device_of, plan.loads),
        *schedule_faults(graph, topology, plan),
    ]


def stage_faults(
    graph: OpGraph, topology: Topology, device_of: Sequence[int], loads: Sequence[float]
) -> list[str]:
    """Wrong loads of devices, and data that flows in a circle between them."""
    found = []
    for device, (load, limit) in enumerate(zip(loads, topology.devices, strict=True)):
        members = {number for number, place in enumerate(device_of) if place == device}
        guests = {source for source, target in graph.edges if target in members} - members
        sent = {(source, device_of[target]) for source, target in graph.edges if source in members}
        seconds = sum(graph.ops[one].seconds for one in members) / limit.speed
        seconds += sum(_way(graph, topology, device_of, one, device) for one in guests)
        seconds += sum(_way(graph, topology, device_of, one, to) for one, to in sent if to != device)
        if abs(seconds - load) > ROUNDING * max(1e-9, seconds):
            found.append(f"{limit.name} is busy for {seconds} s, not for {load}")
    return found + _flow(graph, device_of, len(loads))


def _way(graph: OpGraph, topology: Topology, device_of: Sequence[int], op: int, target: int) -> float:
    link = topology.links[device_of[op]][target]
    return link.latency + link.seconds_per_byte * graph.ops[op].output


def _flow(graph: OpGraph, device_of: Sequence[int], devices: int) -> list[str]:
    """Check that stages have no cycle: forward data goes one way around, backward data the other."""
    after: dict[int, set[int]] = {}
    for source, target in graph.edges:
        one, two = device_of[source], device_of[target]
        if graph.ops[source].backward != graph.ops[target].backward or one == two:
            continue
        first, second = (two, one) if graph.ops[source].backward else (one, two)
        after.setdefault(first, set()).add(second)
    left = set(range(devices))
    while left:
        ends = {one for one in left if not after.get(one, set()) & left}
        if not ends:
            return [f"data flows in a circle between the stages {sorted(left)}"]
        left -= ends
    return []
