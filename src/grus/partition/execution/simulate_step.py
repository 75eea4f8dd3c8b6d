"""Step simulator: the only one, for the time and memory of a placement.

A device runs one operator at a time: whenever it is idle, of those whose inputs are there the one with the
lowest rank. The end of an operator sends its output once to every other device that has a consumer, in the
order of their numbers; a device sends one tensor at a time and receives one at a time. Compute and transfers
overlap.

Memory of a device: the permanent bytes of its operators; the temporary bytes of the one that runs; an output
from the producer's start until its last consumer there ended and it is sent (to the end of the step when it
has no reader); a copy from the start of its transfer until the last consumer there ended.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from grus.partition.execution.placement_plan import Plan, Transfer
from grus.partition.graph import OpGraph
from grus.partition.topology import Topology


class StepSimulation:
    """A step under way; made for one placement and run once."""

    def __init__(
        self, graph: OpGraph, topology: Topology, device_of: Sequence[int], rank: Sequence[int]
    ) -> None:
        count = len(topology.devices)
        self.graph = graph
        self.topology = topology
        self.device_of = device_of
        self.rank = rank
        self.start = [0.0] * len(graph.ops)
        self.end = [0.0] * len(graph.ops)
        self.transfers: list[tuple[int, int, float, float]] = []
        """(producer, target, start, end)"""
        self.order: list[list[int]] = [[] for _ in range(count)]
        self._missing = [len(one) for one in graph.inputs]
        self._ready: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._idle = [True] * count
        self._sends = [0.0] * count
        self._receives = [0.0] * count
        self._speed = [device.speed for device in topology.devices]
        self._events: list[tuple[float, int, int]] = []
        """(time, operator, device where its output is from then on)"""

    def finish(self) -> float:
        """Run it to the end; returns the end of the last operator."""
        for op, missing in enumerate(self._missing):
            if not missing:
                heappush(self._ready[self.device_of[op]], (self.rank[op], op))
        self._dispatch(range(len(self.order)), 0.0)
        events = self._events
        while events:
            now = events[0][0]
            touched = []
            while events and events[0][0] == now:
                _, op, device = heappop(events)
                touched.append(device)
                self._arrive(op, device, now)
            self._dispatch(touched, now)
        return max(self.end)

    def _dispatch(self, devices: Iterable[int], now: float) -> None:
        """Start the next operator of each device that is idle."""
        for device in devices:
            if self._idle[device] and self._ready[device]:
                _, op = heappop(self._ready[device])
                self._idle[device] = False
                self.order[device].append(op)
                self.start[op] = now
                self.end[op] = end = now + self.graph.ops[op].seconds / self._speed[device]
                heappush(self._events, (end, op, device))

    def _arrive(self, op: int, device: int, now: float) -> None:
        """An output is on a device: at home because it was just made, elsewhere because it was sent."""
        device_of, missing = self.device_of, self._missing
        elsewhere = []
        for consumer in self.graph.consumers[op]:
            if device_of[consumer] == device:
                missing[consumer] -= 1
                if not missing[consumer]:
                    heappush(self._ready[device], (self.rank[consumer], consumer))
            else:
                elsewhere.append(device_of[consumer])
        if device_of[op] == device:
            self._idle[device] = True
            if elsewhere:
                self._send(op, device, sorted({*elsewhere}), now)

    def _send(self, op: int, source: int, targets: Sequence[int], now: float) -> None:
        for target in targets:
            begin = max(now, self._sends[source], self._receives[target])
            end = begin + self.topology.links[source][target].seconds(self.graph.ops[op].output)
            self._sends[source] = self._receives[target] = end
            self.transfers.append((op, target, begin, end))
            heappush(self._events, (end, op, target))

    def peaks(self, last: float) -> tuple[int, ...]:
        """The most bytes at once on each device, of a run that ended at `last`."""
        changes: list[list[tuple[float, int, int]]] = [[] for _ in self.order]
        permanent = [0] * len(self.order)
        until = self._last_uses(last)
        for number, op in enumerate(self.graph.ops):
            device = self.device_of[number]
            permanent[device] += op.permanent
            hold(changes[device], self.start[number], self.end[number], op.temporary)
            hold(changes[device], self.start[number], until[number, device], op.passing)
        for producer, target, begin, _ in self.transfers:
            hold(changes[target], begin, until[producer, target], self.graph.ops[producer].output)
        return tuple(map(highest, permanent, changes))

    def _last_uses(self, last: float) -> dict[tuple[int, int], float]:
        """(operator, device) → until when its output must stay there."""
        until = {(op, device): self.end[op] for op, device in enumerate(self.device_of)}
        for op, consumers in enumerate(self.graph.consumers):
            if not consumers:
                until[op, self.device_of[op]] = last
            for consumer in consumers:
                key = (op, self.device_of[consumer])
                until[key] = max(until.get(key, 0.0), self.end[consumer])
        for producer, _, _, arrived in self.transfers:
            key = (producer, self.device_of[producer])
            until[key] = max(until[key], arrived)
        return until


def hold(changes: list[tuple[float, int, int]], begin: float, end: float, size: int) -> None:
    """Note that bytes are in use; at one instant, what ends comes before what begins."""
    if size:
        changes.append((begin, 1, size))
        changes.append((end, 0 if end > begin else 2, -size))


def highest(permanent: int, changes: list[tuple[float, int, int]]) -> int:
    """The most bytes at once, beside those that stay."""
    used = most = permanent
    for _, _, size in sorted(changes):
        used += size
        most = max(most, used)
    return most


def simulate(
    graph: OpGraph, topology: Topology, device_of: Sequence[int], rank: Sequence[int], placer: str = ""
) -> Plan:
    """Simulate a step with each operator on its device; `rank` decides between operators that could start."""
    run = StepSimulation(graph, topology, device_of, rank)
    seconds = run.finish()
    return Plan(
        placer=placer,
        device_of=tuple(device_of),
        order=tuple(map(tuple, run.order)),
        start=tuple(run.start),
        end=tuple(run.end),
        transfers=tuple(Transfer(*one) for one in run.transfers),
        seconds=seconds,
        peaks=run.peaks(seconds),
    )


def ranks(order: Sequence[int]) -> list[int]:
    """The place of each operator in an order of all."""
    found = [0] * len(order)
    for place, op in enumerate(order):
        found[op] = place
    return found
