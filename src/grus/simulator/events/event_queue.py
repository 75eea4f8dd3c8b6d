"""Future events of a simulation, in order of time. Same pushes, same order: nothing depends on addresses."""

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from grus.simulator.events.job_progress import SimulatedRun


class SimulationEventKind(IntEnum):
    """Kinds of events. At one moment they happen in this order: releases of GPUs come first."""

    BREAK = 0
    REPAIR = 1
    END = 2
    PAUSED = 3
    LEFT = 4
    READY = 5
    JOINED = 6
    SAVED = 7
    TOLD = 8


class ScheduledEvent(NamedTuple):
    """Something that will happen; `token` says to which life of the run, or which node, it belongs."""

    at: float
    kind: SimulationEventKind
    number: int
    run: SimulatedRun | None
    token: object


class Agenda:
    """A heap of what is due."""

    def __init__(self) -> None:
        self._heap: list[ScheduledEvent] = []
        self._count = 0

    def push(self, at: float, kind: SimulationEventKind, run: SimulatedRun | None, token: object) -> None:
        self._count += 1
        heappush(self._heap, ScheduledEvent(at, kind, self._count, run, token))

    def next_at(self) -> float | None:
        return self._heap[0].at if self._heap else None

    def pop_due(self, now: float) -> ScheduledEvent | None:
        """Pop the next event that is due, if any."""
        return heappop(self._heap) if self._heap and self._heap[0].at <= now else None
