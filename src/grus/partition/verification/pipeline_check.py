"""Verifies the timeline of a pipeline from the graph alone, with no part of what made it.

Every function names what is wrong; an empty list means that the answer holds. Times may differ by rounding.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from grus.partition.execution.placement_plan import Pipeline, Rhythm, Turn
from grus.partition.graph import OpGraph
from grus.partition.topology import Topology
from grus.partition.verification.tolerances import ROUNDING, Holding, most_at_once

Key = tuple[int, int, bool]
"""(stage, micro-batch, backward)"""


def schedule_faults(graph: OpGraph, topology: Topology, plan: Pipeline) -> list[str]:
    """Return all faults in the step of a pipeline whose placement is known to be valid."""
    if sorted(plan.stages) != sorted(set(plan.device_of)):
        return ["the stages are not the devices that operators are on"]
    keys = [(turn.stage, turn.batch, turn.backward) for turn in plan.turns]
    batches, count = range(plan.schedule.micro_batches), range(len(plan.stages))
    if sorted(keys) != sorted(
        (stage, batch, back) for stage in count for batch in batches for back in (False, True)
    ):
        return ["the turns are not those of every stage, micro-batch and pass once"]
    slack = ROUNDING * max(1e-9, plan.seconds)
    view = _PlanChecker(graph, topology, plan, slack)
    found = [*view.directions(), *view.turns(), *view.messages(), *view.arrivals(), *view.memory()]
    if abs(max(turn.end for turn in plan.turns) - plan.seconds) > slack:
        found.append(f"the step does not end at {plan.seconds}")
    if plan.bound > plan.seconds + slack:
        found.append(f"the bound {plan.bound} is above the step's {plan.seconds}")
    return found


class _PlanChecker:
    """One answer, looked at from several sides."""

    def __init__(self, graph: OpGraph, topology: Topology, plan: Pipeline, slack: float) -> None:
        self.graph, self.topology, self.plan, self.slack = graph, topology, plan, slack
        number = {device: stage for stage, device in enumerate(plan.stages)}
        self.at = [number[device] for device in plan.device_of]
        self.turn = {(one.stage, one.batch, one.backward): one for one in plan.turns}
        self.last = len(plan.stages) - 1

    def directions(self) -> Iterator[str]:
        """Check that in one pass, data goes one way."""
        for source, target in self.graph.edges:
            one, two = self.graph.ops[source], self.graph.ops[target]
            ahead = self.at[target] - self.at[source]
            if one.backward == two.backward and (ahead > 0 if one.backward else ahead < 0):
                yield f"{one.name} is in a stage on the wrong side of {two.name}"

    def turns(self) -> Iterator[str]:
        """Check durations, and the order of the pipeline schedule, one turn at a time."""
        for stage in range(self.last + 1):
            speed = self.topology.devices[self.plan.stages[stage]].speed
            mine = sorted((one for one in self.plan.turns if one.stage == stage), key=_time)
            for turn in mine:
                needed = sum(
                    op.seconds
                    for number, op in enumerate(self.graph.ops)
                    if self.at[number] == stage and op.backward == turn.backward
                )
                if turn.start < 0 or abs(turn.end - turn.start - needed / speed) > self.slack:
                    yield f"a turn of stage {stage} does not take {needed / speed} s"
            if any(second.start < first.end - self.slack for first, second in pairwise(mine)):
                yield f"stage {stage} takes two turns at once"
            yield from self._rhythm(stage)

    def _rhythm(self, stage: int) -> Iterator[str]:
        """Check the order of micro-batches, and that no more
        are in flight than the pipeline schedule allows.
        """
        schedule = self.plan.schedule
        batches = range(schedule.micro_batches)
        ahead = len(batches) if schedule.rhythm is Rhythm.GPIPE else self.last + 1 - stage
        for batch in batches:
            first, second = self.turn[stage, batch, False], self.turn[stage, batch, True]
            if second.start < first.end - self.slack:
                yield f"stage {stage} goes back with micro-batch {batch} before it came"
            if batch + 1 < len(batches):
                after = (self.turn[stage, batch + 1, back] for back in (False, True))
                if any(
                    late.start < early.end - self.slack
                    for early, late in zip((first, second), after, strict=True)
                ):
                    yield f"stage {stage} takes micro-batch {batch + 1} too early"
            ahead_of_it = self.turn.get((stage, batch + ahead, False))
            if ahead_of_it is not None and ahead_of_it.start < second.end - self.slack:
                yield f"stage {stage} has more than {ahead} micro-batches in flight"

    def crossing(self, border: int, back: bool) -> int:
        """Bytes between a stage and the next one, or back."""
        total = 0
        for number, op in enumerate(self.graph.ops):
            ends = [self.at[one] for one in self.graph.consumers[number]]
            here = self.at[number]
            over = any(one <= border for one in ends) if back else any(one > border for one in ends)
            if over and (here > border if back else here <= border):
                total += op.output
        return total

    def messages(self) -> Iterator[str]:
        """Check that data across a border is sent once per turn, one message at a time on each channel."""
        wanted: dict[Key, float] = {}
        for stage, batch, back in self.turn:
            target = stage - 1 if back else stage + 1
            if 0 <= target <= self.last:
                size = self.crossing(min(stage, target), back)
                link = self.topology.links[self.plan.stages[stage]][self.plan.stages[target]]
                if size:
                    wanted[stage, batch, back] = link.latency + link.seconds_per_byte * size
        sent = [(one.stage, one.batch, one.backward) for one in self.plan.messages]
        if sorted(sent) != sorted(wanted):
            yield "the messages are not those that the stages need"
            return
        channels: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for key, one in zip(sent, self.plan.messages, strict=True):
            if abs(one.end - one.start - wanted[key]) > self.slack:
                yield f"a message of stage {one.stage} does not take {wanted[key]} s"
            if one.start < self.turn[key].end - self.slack:
                yield f"a message of stage {one.stage} is sent before it is made"
            target = one.stage - 1 if one.backward else one.stage + 1
            channels.setdefault(("sends", one.stage), []).append((one.start, one.end))
            channels.setdefault(("receives", target), []).append((one.start, one.end))
        for (what, stage), spans in channels.items():
            if any(two[0] < one[1] - self.slack for one, two in pairwise(sorted(spans))):
                yield f"stage {stage} {what} two messages at once"

    def arrivals(self) -> Iterator[str]:
        """Check that a turn starts only when the message that it needs from its neighbor has arrived."""
        there = {(one.stage, one.batch, one.backward): one.end for one in self.plan.messages}
        for (stage, batch, back), turn in self.turn.items():
            source = stage + 1 if back else stage - 1
            if 0 <= source <= self.last:
                key = (source, batch, back)
                if turn.start < there.get(key, self.turn[key].end) - self.slack:
                    yield f"stage {stage} begins micro-batch {batch} before its message is there"

    def memory(self) -> Iterator[str]:
        for device, limit in enumerate(self.topology.devices):
            peak = 0
            if device in self.plan.stages:
                stage = self.plan.stages.index(device)
                incoming = self.crossing(stage - 1, False) if stage else 0
                incoming += self.crossing(stage, True) if stage < self.last else 0
                mine = [op for number, op in enumerate(self.graph.ops) if self.at[number] == stage]
                peak = sum(op.permanent - op.kept for op in mine)
                peak += self.plan.schedule.micro_batches * incoming
                peak += most_at_once([*self._held(stage)])
            if peak > limit.memory:
                yield f"{limit.name} needs {peak} bytes and has {limit.memory}"
            if peak != self.plan.peaks[device]:
                yield f"{limit.name} needs {peak} bytes, not {self.plan.peaks[device]}"

    def _held(self, stage: int) -> Iterator[Holding]:
        """Yield the bytes that are there for a part of the step."""
        ops, consumers = self.graph.ops, self.graph.consumers
        mine = [number for number in self.graph.topological if self.at[number] == stage]
        kept, given = sum(ops[number].kept for number in mine), 0
        apart = set()
        for number in mine:
            away = any(self.at[one] != stage for one in consumers[number])
            later = any(ops[one].backward for one in consumers[number]) or not consumers[number]
            if ops[number].backward and away:
                given += 0 if ops[number].saved else ops[number].output
                apart.add(number)
            elif not ops[number].backward and (away or later):
                kept += 0 if ops[number].saved else ops[number].output
                apart.add(number)
        work = {
            back: self._work([number for number in mine if ops[number].backward == back], apart)
            for back in (False, True)
        }
        sent = {one.batch: one.end for one in self.plan.messages if one.stage == stage and one.backward}
        for turn in (one for one in self.plan.turns if one.stage == stage):
            yield turn.start, turn.end, work[turn.backward]
            if turn.backward:
                yield turn.start, sent.get(turn.batch, turn.end), given
                yield self.turn[stage, turn.batch, False].start, turn.end, kept

    def _work(self, members: Sequence[int], apart: set[int]) -> int:
        """The most at once inside a turn that runs these operators one after the other."""
        place = {number: here for here, number in enumerate(members)}
        held: list[Holding] = []
        for here, number in enumerate(members):
            op = self.graph.ops[number]
            held.append((here, here + 1, op.temporary))
            if number not in apart and not op.saved:
                uses = [place[one] + 1 for one in self.graph.consumers[number] if one in place]
                held.append((here, max(uses, default=len(members)), op.output))
        return most_at_once(held)


def _time(turn: Turn) -> tuple[float, float, bool]:
    return turn.start, turn.end, turn.backward
