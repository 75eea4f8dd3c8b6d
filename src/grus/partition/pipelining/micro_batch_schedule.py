"""Pipeline schedule of a step: when each stage takes its turns of micro-batches, and the memory they use.

A stage takes one turn at a time, in the order of its schedule (GPipe or 1F1B), as soon as the message for it
is there. The end of a turn sends its message; a device sends one message at a time and receives one at a
time, and computes meanwhile. Where no data crosses a border, the message takes no time.

Memory of a device: the bytes that exist once; a buffer for every message that it will receive (PyTorch makes
them all before the first step); for each micro-batch the bytes kept from the start of its forward turn to the
end of its backward one; the gradients for earlier stages until they are sent; and the bytes that the running
turn needs.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from grus.partition.execution.placement_plan import Message, Rhythm, Schedule, Turn
from grus.partition.execution.simulate_step import highest, hold
from grus.partition.pipelining.pipeline_cost import Flow
from grus.partition.topology import Topology

Step = tuple[int, bool]
"""(micro-batch, backward)"""


def order(schedule: Schedule, stage: int, stages: int) -> list[Step]:
    """The turns of a stage, one after the other."""
    count = schedule.micro_batches
    ahead = count if schedule.rhythm is Rhythm.GPIPE else min(count, stages - stage)
    turns = [(batch, False) for batch in range(ahead)]
    for batch in range(count):
        turns.append((batch, True))
        if ahead + batch < count:
            turns.append((ahead + batch, False))
    return turns


class Rounds:
    """A step under way; made for one division into stages and run once."""

    def __init__(self, flow: Flow, topology: Topology, devices: Sequence[int], schedule: Schedule) -> None:
        self.flow = flow
        self.devices = devices
        self.turns: list[Turn] = []
        self.messages: list[Message] = []
        self._topology = topology
        self._schedule = schedule
        stages = range(len(devices))
        self._left = [order(schedule, stage, len(devices))[::-1] for stage in stages]
        self._there: list[set[Step]] = [set() for _ in stages]
        self._idle = [True for _ in stages]
        self._sends = [0.0 for _ in stages]
        self._receives = [0.0 for _ in stages]
        self._events: list[tuple[float, int, int, bool, bool]] = []
        """(time, stage, micro-batch, backward, a turn ended there; otherwise a message came)"""

    def finish(self) -> float:
        """Run it to the end; returns when the last turn ended."""
        for stage in range(len(self.devices)):
            self._begin(stage, 0.0)
        while self._events:
            now, stage, batch, backward, ended = heappop(self._events)
            if ended:
                self._idle[stage] = True
                self._send(stage, batch, backward, now)
            else:
                self._there[stage].add((batch, backward))
            self._begin(stage, now)
        return max(turn.end for turn in self.turns)

    def _begin(self, stage: int, now: float) -> None:
        """Start the stage's next turn if nothing is missing."""
        left = self._left[stage]
        if not self._idle[stage] or not left:
            return
        batch, backward = left[-1]
        end_of_line = stage == (len(self.devices) - 1 if backward else 0)
        if not end_of_line and (batch, backward) not in self._there[stage]:
            return
        left.pop()
        self._idle[stage] = False
        work = self.flow.stages[stage].backward if backward else self.flow.stages[stage].forward
        end = now + work / self._topology.devices[self.devices[stage]].speed
        self.turns.append(Turn(stage, batch, backward, now, end))
        heappush(self._events, (end, stage, batch, backward, True))

    def _send(self, stage: int, batch: int, backward: bool, now: float) -> None:
        target = stage - 1 if backward else stage + 1
        if not 0 <= target < len(self.devices):
            return
        size = self.flow.back[target] if backward else self.flow.onward[stage]
        if not size:
            heappush(self._events, (now, target, batch, backward, False))
            return
        begin = max(now, self._sends[stage], self._receives[target])
        link = self._topology.links[self.devices[stage]][self.devices[target]]
        end = begin + link.seconds(size)
        self._sends[stage] = self._receives[target] = end
        self.messages.append(Message(stage, batch, backward, begin, end))
        heappush(self._events, (end, target, batch, backward, False))

    def peaks(self) -> tuple[int, ...]:
        """The most bytes at once on each device, of a step that was run."""
        found = [0] * len(self._topology.devices)
        for stage, device in enumerate(self.devices):
            held = self.flow.stages[stage]
            base = held.once + self._schedule.micro_batches * self.flow.received(stage)
            changes: list[tuple[float, int, int]] = []
            for begin, end, size in self._holdings(stage):
                hold(changes, begin, end, size)
            found[device] = highest(base, changes)
        return tuple(found)

    def _holdings(self, stage: int) -> Iterator[tuple[float, float, int]]:
        """(from, until, bytes)"""
        held = self.flow.stages[stage]
        sent = {one.batch: one.end for one in self.messages if one.stage == stage and one.backward}
        turns = {(one.batch, one.backward): one for one in self.turns if one.stage == stage}
        for (batch, backward), turn in turns.items():
            yield turn.start, turn.end, held.works[backward]
            if backward:
                yield turn.start, sent.get(batch, turn.end), held.gives
                yield turns[batch, False].start, turn.end, held.kept
