"""When to look at something again although nothing was heard of it. One time a key; `set` replaces it."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """A heap in which replaced entries stay until they come up, and are skipped then."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def set(self, key: Key, at: float | None) -> None:
        """Look at `key` at that time; None for never."""
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            self._count += 1  # breaks ties, so that keys are never compared
            heappush(self._heap, (at, self._count, key))
            self._tidy()

    def due(self, now: float) -> list[Key]:
        """Keys whose time has come; each is told once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                found.append(key)
        return found

    def bring_forward(self, seconds: float) -> None:
        """The clock was set back by so much: what was to come in a minute still comes in a minute."""
        self._at = {key: at - seconds for key, at in self._at.items()}
        self._heap = [(at - seconds, count, key) for at, count, key in self._heap]

    def next(self) -> float | None:
        """The earliest time set."""
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        # Far-off timers of jobs that ended early (max_runtime: 3d) would pile up for days.
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._at):
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[0]]
            heapify(self._heap)
