"""A moment that is not certain: by when, with which chance."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVELS = (0.01, 0.025, *(k / 20 for k in range(1, 20)), 0.975, 0.99)
"""Chances at which a forecast is kept."""


@dataclass(frozen=True, slots=True)
class Chances:
    """Moments that are reached with the chances of `LEVELS`; infinite ones lie beyond what was looked at."""

    at: tuple[float, ...]

    def quantile(self, level: float) -> float:
        """The moment that is reached with this chance."""
        above = min(bisect_left(LEVELS, level), len(LEVELS) - 1)
        if above == 0 or LEVELS[above] <= level or self.at[above] == float("inf"):
            return self.at[above]
        low, part = self.at[above - 1], (level - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
        return low + part * (self.at[above] - low)

    def level(self, moment: float) -> float:
        """The chance that was given to it being reached by this moment."""
        if moment < self.at[0]:
            return 0.0
        below = int(np.searchsorted(self.at, moment, side="right")) - 1
        if below >= len(self.at) - 1:
            return 1.0
        low, high = self.at[below], self.at[below + 1]
        part = (moment - low) / (high - low) if high < float("inf") else 0.0
        return LEVELS[below] + part * (LEVELS[below + 1] - LEVELS[below])


def chances_of(moments: NDArray[np.float64]) -> Chances:
    """Quantiles by rank: interpolation would make infinities of what lies beside one."""
    ordered = np.sort(moments)
    ranks = np.minimum((np.array(LEVELS) * len(ordered)).astype(int), len(ordered) - 1)
    return Chances(tuple(float(moment) for moment in ordered[ranks]))
