"""What will happen by itself, in order of time. Same pushes, same order: nothing depends on addresses."""

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from grus.simulation.run import Run


class Kind(IntEnum):
    """What can happen. At one moment in this order: who gives back comes first."""

    BREAK = 0
    REPAIR = 1
    END = 2
    PAUSED = 3
    LEFT = 4
    READY = 5
    JOINED = 6
    SAVED = 7
    TOLD = 8


class Due(NamedTuple):
    """Something that will happen; `token` says to which life of the run, or which node, it belongs."""

    at: float
    kind: Kind
    number: int
    run: Run | None
    token: object


class Agenda:
    """A heap of what is due."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._count = 0

    def push(self, at: float, kind: Kind, run: Run | None, token: object) -> None:
        self._count += 1
        heappush(self._heap, Due(at, kind, self._count, run, token))

    def next_at(self) -> float | None:
        return self._heap[0].at if self._heap else None

    def pop_due(self, now: float) -> Due | None:
        """The next thing that has come due, if any has."""
        return heappop(self._heap) if self._heap and self._heap[0].at <= now else None
