"""Work queue of objects to check: each at most once at a time, however often it changes meanwhile.

A key that is added while it is being worked on is returned again afterwards; one that failed is returned
again after a growing pause. The queue does not interpret the keys.
"""

import heapq
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from grus.model.backoff import backoff

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Keys to be looked at. Any thread may add and take."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        first_pause: float = 0.2,
        longest_pause: float = 30.0,
    ) -> None:
        """Pauses: seconds before a key that failed comes again, doubled from the first to the longest."""
        self._clock = clock
        self._pauses = first_pause, longest_pause
        self._changed = threading.Condition()
        self._ready: dict[Key, None] = {}  # in the order in which they were added
        self._later: list[tuple[float, int, Key]] = []
        self._taken: set[Key] = set()
        self._again: set[Key] = set()
        self._troubles: dict[Key, int] = {}
        self._count = 0
        self._closed = False

    def add(self, key: Key, after: float = 0.0) -> None:
        """Add a key to be checked, in so many seconds at the earliest."""
        with self._changed:
            if after > 0:
                self._count += 1
                heapq.heappush(self._later, (self._clock() + after, self._count, key))
            elif key in self._taken:
                self._again.add(key)
            else:
                self._ready[key] = None
            self._changed.notify()

    def take(self) -> Key | None:
        """Return the next key, once there is one; None when closed. Then call `done` or `failed` with it."""
        with self._changed:
            while not self._closed:
                self._move_due()
                if self._ready:
                    key = next(iter(self._ready))
                    del self._ready[key]
                    self._taken.add(key)
                    if self._ready:
                        self._changed.notify()
                    return key
                self._changed.wait(self._later[0][0] - self._clock() if self._later else None)
            return None

    def done(self, key: Key) -> None:
        self._troubles.pop(key, None)
        self._give_back(key)

    def failed(self, key: Key) -> None:
        """Return the key to the queue after a pause."""
        with self._changed:
            troubles = self._troubles[key] = self._troubles.get(key, 0) + 1
        self._give_back(key)
        self.add(key, backoff(troubles, *self._pauses))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _give_back(self, key: Key) -> None:
        with self._changed:
            self._taken.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._ready[key] = None
                self._changed.notify()

    def _move_due(self) -> None:
        while self._later and self._later[0][0] <= self._clock():
            _, _, key = heapq.heappop(self._later)
            if key in self._taken:
                self._again.add(key)
            else:
                self._ready[key] = None
