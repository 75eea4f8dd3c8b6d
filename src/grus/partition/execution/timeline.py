"""Timeline of a plan: the activity of each device in a step, and its memory over time, ready for display."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from grus.partition.execution.placement_plan import Pipeline, Plan
from grus.partition.graph import OpGraph
from grus.partition.pipelining.pipeline_cost import Flow, flow
from grus.partition.topology import Topology


class ActivityKind(StrEnum):
    """Activity during a stretch of time."""

    FORWARD = "forward"
    BACKWARD = "backward"
    SENDS = "sends"
    RECEIVES = "receives"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that a device does from one second to another."""

    kind: ActivityKind
    begin: float
    end: float
    name: str
    """Name of the operator, or of the one whose output
    is sent; in a pipeline the number of the micro-batch.
    """
    size: int = 0
    """Bytes that are sent."""
    peer: str = ""
    """Destination or source."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One device during a step."""

    device: str
    memory: int
    """Bytes that it may use."""
    stretches: tuple[Stretch, ...]
    usage: tuple[tuple[float, int], ...]
    """(second, bytes from then on), ascending; several of one second in the order in which they happen."""

    @property
    def peak(self) -> int:
        return max((size for _, size in self.usage), default=0)

    @property
    def busy(self) -> float:
        """Seconds in which it computes."""
        return sum(one.end - one.begin for one in self.stretches if one.kind in COMPUTING)


COMPUTING = frozenset({ActivityKind.FORWARD, ActivityKind.BACKWARD})
Change = tuple[float, int, int]
"""(second, order of those of one second, bytes more): what ends comes before what begins, and what takes no
time is there for that instant."""


def strips(graph: OpGraph, topology: Topology, plan: Plan | Pipeline) -> tuple[Strip, ...]:
    """The devices in their order."""
    if isinstance(plan, Pipeline):
        return _of_stages(graph, topology, plan)
    return tuple(
        Strip(
            limit.name,
            limit.memory,
            tuple(sorted(_stretches(graph, topology, plan, device), key=_moment)),
            _usage(graph, plan, device),
        )
        for device, limit in enumerate(topology.devices)
    )


def _moment(one: Stretch) -> tuple[float, float, ActivityKind]:
    return one.begin, one.end, one.kind


def _stretches(graph: OpGraph, topology: Topology, plan: Plan, device: int) -> Iterator[Stretch]:
    for number in plan.order[device]:
        op = graph.ops[number]
        kind = ActivityKind.BACKWARD if op.backward else ActivityKind.FORWARD
        yield Stretch(kind, plan.start[number], plan.end[number], op.name)
    for one in plan.transfers:
        op, source = graph.ops[one.producer], plan.device_of[one.producer]
        if device in (source, one.target):
            kind = ActivityKind.SENDS if device == source else ActivityKind.RECEIVES
            peer = topology.devices[one.target if device == source else source].name
            yield Stretch(kind, one.start, one.end, op.name, op.output, peer)


def _usage(graph: OpGraph, plan: Plan, device: int) -> tuple[tuple[float, int], ...]:
    home = plan.order[device]
    changes: list[Change] = [(0.0, -1, sum(graph.ops[number].permanent for number in home))]
    sent: dict[int, float] = {}
    for one in plan.transfers:
        sent[one.producer] = max(sent.get(one.producer, 0.0), one.end)
    for number in home:
        op = graph.ops[number]
        changes += _held(plan.start[number], plan.end[number], op.temporary)
        last = max(_read(graph, plan, number, device), sent.get(number, 0.0))
        until = last if graph.consumers[number] else plan.seconds
        changes += _held(plan.start[number], until, op.passing)
    for one in plan.transfers:
        if one.target == device:
            until = _read(graph, plan, one.producer, device)
            changes += _held(one.start, until, graph.ops[one.producer].output)
    changes.sort()
    return _summed(changes)


def _read(graph: OpGraph, plan: Plan, number: int, device: int) -> float:
    """Return when the last reader there has ended; the operator's own end if there is none."""
    readers = [plan.end[one] for one in graph.consumers[number] if plan.device_of[one] == device]
    return max([plan.end[number], *readers])


def _held(begin: float, end: float, size: int) -> list[Change]:
    return [(begin, 1, size), (end, 0 if end > begin else 2, -size)] if size else []


# ------------------------------------------------------------------------------------------------- pipelines


def _of_stages(graph: OpGraph, topology: Topology, plan: Pipeline) -> tuple[Strip, ...]:
    number = {device: stage for stage, device in enumerate(plan.stages)}
    data = flow(graph, [number[device] for device in plan.device_of], len(plan.stages))
    found = []
    for device, limit in enumerate(topology.devices):
        stage = number.get(device)
        if stage is None:
            found.append(Strip(limit.name, limit.memory, (), ((0.0, 0),)))
            continue
        done = sorted(_turns(topology, plan, data, stage), key=_moment)
        found.append(Strip(limit.name, limit.memory, tuple(done), _in_flight(plan, data, stage)))
    return tuple(found)


def _turns(topology: Topology, plan: Pipeline, data: Flow, stage: int) -> Iterator[Stretch]:
    for turn in plan.turns:
        if turn.stage == stage:
            kind = ActivityKind.BACKWARD if turn.backward else ActivityKind.FORWARD
            yield Stretch(kind, turn.start, turn.end, str(turn.batch + 1))
    for one in plan.messages:
        target = one.stage - 1 if one.backward else one.stage + 1
        if stage in (one.stage, target):
            kind = ActivityKind.SENDS if stage == one.stage else ActivityKind.RECEIVES
            peer = plan.stages[target if stage == one.stage else one.stage]
            size = data.back[target] if one.backward else data.onward[one.stage]
            yield Stretch(kind, one.start, one.end, str(one.batch + 1), size, topology.devices[peer].name)


def _in_flight(plan: Pipeline, data: Flow, stage: int) -> tuple[tuple[float, int], ...]:
    held = data.stages[stage]
    sent = {one.batch: one.end for one in plan.messages if one.stage == stage and one.backward}
    turns = {(one.batch, one.backward): one for one in plan.turns if one.stage == stage}
    changes: list[Change] = [(0.0, -1, held.once + plan.schedule.micro_batches * data.received(stage))]
    for (batch, backward), turn in turns.items():
        changes += _held(turn.start, turn.end, held.works[backward])
        if backward:
            changes += _held(turn.start, sent.get(batch, turn.end), held.gives)
            changes += _held(turns[batch, False].start, turn.end, held.kept)
    changes.sort()
    return _summed(changes)


def _summed(changes: Sequence[Change]) -> tuple[tuple[float, int], ...]:
    return tuple(zip((at for at, _, _ in changes), accumulate(size for *_, size in changes), strict=True))
