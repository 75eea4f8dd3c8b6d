"""Timers: the times of the next checks if no message arrives. One time per key; `set` replaces it."""

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
        """Set the time of `key`; None for never."""
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            self._count += 1  # breaks ties, so that keys are never compared
            heappush(self._heap, (at, self._count, key))
            self._tidy()

    def due(self, now: float) -> list[Key]:
        """Return the keys whose time has come; each is returned once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                found.append(key)
        return found

    def bring_forward(self, seconds: float) -> None:
        """Adjust to a clock that was set back by so much: a timer due in a minute is still due in a
        minute.
        """
        self._at = {key: at - seconds for key, at in self._at.items()}
        self._heap = [(at - seconds, count, key) for at, count, key in self._heap]

    def next(self) -> float | None:
        """Return the earliest time set."""
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        # Far-off timers of jobs that ended early (max_runtime: 3d) would pile up for days.
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._at):
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[0]]
            heapify(self._heap)
