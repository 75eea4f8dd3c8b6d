"""Rhythm: whether evenly sampled numbers repeat, how long one period takes, and when the last one began."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rhythm:
    period: float
    """Seconds."""
    confidence: float
    """0 to 1."""
    boundary: float
    """The latest moment, in the clock of the samples, at which a period began: work resumed after a pause."""

    def next_boundary(self, now: float) -> float:
        """When a period begins next, at `now` or later."""
        return self.boundary + math.ceil((now - self.boundary) / self.period) * self.period


def rhythm(values: Floats, step: float, *, start: float = 0.0) -> Rhythm | None:
    """The rhythm of samples `step` seconds apart, the first at `start`; NaN is a gap. None: none was seen."""
    level = np.nanmean(values) if np.isfinite(values).any() else 0.0
    around = np.nan_to_num(values - level)
    energy = float(around @ around)
    if len(around) < 16 or energy <= 0:
        return None
    lags = np.array([around[lag:] @ around[: len(around) - lag] for lag in range(len(around) // 3)]) / energy
    peaks = [lag for lag in range(3, len(lags) - 1) if lags[lag - 1] < lags[lag] > lags[lag + 1]]
    best = max(peaks, key=lambda lag: float(lags[lag]), default=0)
    if best == 0 or lags[best] < 0.4:
        return None
    rise = len(around) - best + int(np.argmax(np.diff(around[-best:])))
    return Rhythm(best * step, float(lags[best]), start + rise * step)
