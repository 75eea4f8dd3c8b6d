"""Stragglers: ranks whose steps take much longer than those of the others.

The measure is each rank's own time per step (without waiting for the others), over its last few steps: one
slow step is chance. Stragglers are few and stand apart: ranks that are merely of two kinds (half of them on
slower GPUs) are uneven, and none of them is a straggler.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

RECENT = 5
"""Steps (or reports of steps) over which a rank is measured."""
MOST = 4
"""At most one in so many ranks straggles (but one may always)."""
SLOW = 1.3
"""Times the time of the slowest of the others that makes a straggler, …"""
CAUGHT_UP = 1.15
"""… and below which it is none any more."""

Rank = TypeVar("Rank", bound=Hashable)


def stragglers(
    laps: Mapping[Rank, Sequence[float]], before: frozenset[Rank] = frozenset()
) -> dict[Rank, float]:
    """Return the stragglers, each with the ratio of its own step time to the others' usual time.

    `laps` are the last seconds per step of each rank; no rank is rated until all have `RECENT`. `before` are
    the stragglers of the last call: they stay so until they have caught up.
    """
    if len(laps) < 2 or any(len(own) < RECENT for own in laps.values()):
        return {}
    usual = {rank: float(np.median(own[-RECENT:])) for rank, own in laps.items()}
    slowest = sorted(usual, key=lambda rank: -usual[rank])
    for few in range(max(1, len(slowest) // MOST), 0, -1):
        apart, rest = slowest[:few], usual[slowest[few]]
        needed = CAUGHT_UP if before.issuperset(apart) else SLOW
        if usual[apart[-1]] >= needed * rest > 0:
            others = float(np.median([usual[rank] for rank in slowest[few:]]))
            return {rank: usual[rank] / others for rank in apart}
    return {}


class StragglerDetector(Generic[Rank]):
    """The laps of one job's ranks as they are reported. Bounded: `RECENT` numbers a rank."""

    def __init__(self) -> None:
        self._laps: dict[Rank, deque[float]] = {}
        self._stragglers: dict[Rank, float] = {}

    def lap(self, rank: Rank, seconds: float) -> None:
        """A rank needed so many seconds for a step."""
        self._laps.setdefault(rank, deque(maxlen=RECENT)).append(seconds)
        laps = {one: tuple(own) for one, own in self._laps.items()}
        self._stragglers = stragglers(laps, frozenset(self._stragglers))

    def leave(self, rank: Rank) -> None:
        """Remove a rank that is gone or restarts."""
        self._laps.pop(rank, None)
        self._stragglers.pop(rank, None)

    @property
    def stragglers(self) -> Mapping[Rank, float]:
        return self._stragglers
