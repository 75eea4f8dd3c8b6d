"""Lags at which a series resembles itself: where to look for a period, and how long it is exactly.

Candidates come from two sides, since each is blind where the other sees. In lag, the mean squared difference
between the series and itself so much later: it has a notch at a period, and a drift, which makes it grow
smoothly, makes none. In frequency, peaks of the spectrum above its surroundings: they stand out of noise in
which one lag would drown. Whether a candidate is a period is not decided here (`period_check`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHORTEST = 3.8
"""Samples: a period has at least four, less what jitter takes."""
FEWEST = 3.85
"""Periods that a series must hold: four, less what jitter takes."""

NOTCHES, PEAKS = 10, 6  # Candidates from lag and from frequency.
SPACING = 0.02  # Spacing of lags, as part of the lag: a notch is as wide as the pause of an epoch.
AROUND = 17  # Candidates on each side that make the surroundings: a third of the lag.
SHALLOW = 0.02  # A notch less deep is none.
DEEP = 0.12
"""A lag with less `depth` is no period. If cycles are alike enough to be detected, theirs is above 0.25."""
REFINED = np.linspace(0.96, 1.04, 49)
REACH = 0.75  # Part of the series: lags beyond leave too little to compare.
ECHOES = 8  # Multiples of a period that are used to refine it; more would need less jitter.


@dataclass(frozen=True, slots=True)
class Lags:
    """Results of one transform of a series of mean 0 and variance 1, by lag in samples and by frequency."""

    difference: Floats
    """Mean squared difference between the series and itself `lag` later."""
    likeness: Floats
    """Correlation of the same, between −1 and 1."""
    power: Floats
    """Power by frequency: the k-th has a period of `2 * (len(power) - 1) / k` samples."""

    @classmethod
    def of(cls, series: Floats) -> "Lags":
        count = len(series)
        padded = 1 << (2 * count - 1).bit_length()
        spectrum = np.fft.rfft(series, padded)
        power = spectrum.real**2 + spectrum.imag**2
        product = np.fft.irfft(power, padded)[:count]
        energy = np.concatenate([[0.0], np.cumsum(series * series)])
        lags = np.arange(count)
        both = energy[count - lags] + energy[count] - energy[lags]
        difference = np.maximum(0.0, both - 2 * product) / (count - lags)
        return cls(difference, 2 * product / np.maximum(both, 1e-12), power)

    def candidates(self) -> list[float]:
        """Lags that may be a period, in samples, the most promising of each side first."""
        return self._notches() + self._peaks()

    def _notches(self) -> list[float]:
        """Lags at which the difference is smaller than at the lags around."""
        count = len(self.difference)
        lags = np.exp(np.arange(np.log(SHORTEST), np.log(count / FEWEST) + SPACING, SPACING))
        if not len(lags):  # too short to hold any period so often
            return []
        total = np.concatenate([[0.0], np.cumsum(self.difference)])
        half = np.maximum(0.5, lags * SPACING / 2)
        upper = np.interp(lags + half + 0.5, np.arange(count + 1), total)
        lower = np.interp(lags - half + 0.5, np.arange(count + 1), total)
        mean = (upper - lower) / (2 * half)
        depth = 1 - mean / np.maximum(surroundings(mean, AROUND), 1e-12)
        notches = np.flatnonzero(local_peaks(-mean) & (depth > SHALLOW))
        best = notches[np.argsort(-depth[notches])][:NOTCHES]
        return [float(lag) for lag in lags[best]]

    def _peaks(self) -> list[float]:
        """Periods of frequencies whose power is above that of the frequencies around."""
        size = 2 * (len(self.power) - 1)
        first, last = int(np.ceil(size * FEWEST / len(self.difference))), int(size / SHORTEST)
        if last - first < 8:
            return []
        logs = np.log(self.power[: last + 2] + 1e-12)
        spread = np.exp(np.linspace(np.log(first), np.log(last), min(400, last - first)))
        around = surroundings(np.interp(spread, np.arange(last + 2), logs), 25)
        peaks = np.flatnonzero(local_peaks(logs))
        peaks = peaks[(peaks >= first) & (peaks <= last)]
        height = logs[peaks] - np.interp(peaks, spread, around)
        return [size / float(peak) for peak in peaks[np.argsort(-height)][:PEAKS]]

    def refined(self, lags: list[float]) -> list[float]:
        """Return, for each lag, the one near it at whose multiples the series is most like itself.

        The first ones are those at whose multiples it differs least, compared with halfway between them. Lags
        at whose multiples it differs as much are left out, as are most multiples of a period.
        """
        if not lags:
            return []
        count = len(self.likeness)
        multiples = np.arange(1, ECHOES + 1)[:, None, None]
        tried = np.asarray(lags)[:, None] * REFINED
        weights = np.where(
            multiples * tried < np.maximum(REACH * count, tried + 1), 1 / np.sqrt(multiples), 0.0
        )
        alike = np.sum(weights * np.interp(multiples * tried, np.arange(count), self.likeness), axis=0)
        best = np.argmax(alike, axis=1)
        bends = [vertex(heights, int(place)) for heights, place in zip(alike, best, strict=True)]
        refined = tried[np.arange(len(lags)), best] * (1 + np.array(bends) * (REFINED[1] - REFINED[0]))
        depth = self.depth(refined)
        return [float(refined[place]) for place in np.argsort(-depth) if depth[place] > DEEP]

    def depth(self, lags: Floats) -> Floats:
        """Return the relative drop of the difference at multiples of each lag, compared with halfway.

        It uses the first two multiples or all, whichever gives more: an occasional pause (an evaluation, a
        save) takes the later ones out of step.
        """
        count = len(self.difference)
        halves = np.arange(0.5, ECHOES + 1, 0.5)[:, None] * lags
        there = halves < np.maximum(REACH * count, 1.6 * lags)
        difference = np.interp(halves, np.arange(count), self.difference)
        used = there[2::2]
        at = np.cumsum(difference[1::2] * used, axis=0)
        around = np.cumsum((difference[:-1:2] + difference[2::2]) * used, axis=0)
        depths = 1 - 2 * at[[1, -1]] / np.maximum(around[[1, -1]], 1e-30)
        return np.asarray(depths.max(axis=0))


def vertex(values: Floats, peak: int) -> float:
    """Return the distance from the peak, in places, to the top of the parabola through it and both adjacent
    values.
    """
    if not 0 < peak < len(values) - 1:
        return 0.0
    before, top, after = (float(value) for value in values[peak - 1 : peak + 2])
    bend = before - 2 * top + after
    return 0.5 * (before - after) / bend if bend < 0 else 0.0


def surroundings(values: Floats, reach: int) -> Floats:
    """Mean of each value and `reach` on either side of it."""
    padded = np.pad(values, reach, mode="edge")
    mean: Floats = sliding_window_view(padded, 2 * reach + 1).mean(axis=1)
    return mean


def local_peaks(values: Floats) -> NDArray[np.bool_]:
    """Return a mask of the values that are not below their adjacent values."""
    framed = np.concatenate([[-np.inf], values, [-np.inf]])
    return np.asarray((values >= framed[:-2]) & (values >= framed[2:]))
