"""Two others that look for periods: the rule of Alnair's profiler, and the library pyriodicity.

The rule is stated anew from its description: correlation of the series with itself at lags from 0 to half of
its length; lags above their mean by 1.96 standard deviations count; with more than two of them it is cyclic,
and the period is the median gap between them. It was given the newest two minutes at 1 Hz.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pyriodicity

from benchmarks.periods_traces import Floats

WINDOW = 120  # Samples.
LIBRARY_SAMPLES = 4096  # Its detectors take minutes for the longest series; these are given as means instead.
Finder = Callable[[Floats, float], Sequence[float]]
"""The periods of samples so many seconds apart, in seconds; empty: it has none."""


def original(values: Floats, step: float) -> Sequence[float]:
    """As it ran: it sees the newest 120 samples."""
    return original_whole(values[-WINDOW:], step)


def original_whole(values: Floats, step: float) -> Sequence[float]:
    """The same rule with the whole series."""
    alike = correlations(values)
    if not np.isfinite(alike).all():
        return ()
    peaks = np.flatnonzero(alike > alike.mean() + 1.96 * alike.std())
    return (float(np.median(np.diff(peaks))) * step,) if len(peaks) > 2 else ()


def correlations(values: Floats) -> Floats:
    """Pearson's correlation between the series and itself so many samples later, up to half of its length."""
    count = len(values)
    lags = np.arange(count // 2)
    series = values - values.mean()
    size = 1 << (2 * count).bit_length()
    spectrum = np.fft.rfft(series, size)
    product = np.fft.irfft(np.abs(spectrum) ** 2, size)[: len(lags)]
    sums, squares = (np.concatenate([[0.0], np.cumsum(series**power)]) for power in (1, 2))
    pairs = count - lags
    head, tail = sums[pairs], sums[count] - sums[lags]
    head_spread = squares[pairs] - head**2 / pairs
    tail_spread = squares[count] - squares[lags] - tail**2 / pairs
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((product - head * tail / pairs) / np.sqrt(head_spread * tail_spread))


def autoperiod(values: Floats, step: float) -> Sequence[float]:
    return periods(lambda series: pyriodicity.Autoperiod.detect(series, seed=0), values, step)


def cfd_autoperiod(values: Floats, step: float) -> Sequence[float]:
    return periods(lambda series: pyriodicity.CFDAutoperiod.detect(series, seed=0), values, step)


def sazed(values: Floats, step: float) -> Sequence[float]:
    return periods(pyriodicity.SAZED.detect, values, step)


LIBRARY: dict[str, Finder] = {"Autoperiod": autoperiod, "CFDAutoperiod": cfd_autoperiod, "SAZED": sazed}
"""Those of its detectors that may find nothing."""


def periods(detect: Callable[[Floats], object], values: Floats, step: float) -> Sequence[float]:
    """What a detector tells, in no order; nothing where it fails."""
    by = -(-len(values) // LIBRARY_SAMPLES)
    series = values[len(values) % by :].reshape(-1, by).mean(axis=1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = np.atleast_1d(np.asarray(detect(series), dtype=np.float64))
        except (ValueError, TypeError, IndexError, ZeroDivisionError):
            return ()
    return [float(each) * by * step for each in found if np.isfinite(each) and each > 0]
