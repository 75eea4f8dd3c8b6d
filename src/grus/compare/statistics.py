"""Means, medians, p95 and intervals over repeats. Pure; chance is passed in, so the same runs give the same.

A repeat is one observation: the samples of one run are not independent of each other, and counting them as
many would make any difference look certain. Intervals are bootstrapped. Plain percentile intervals are too
narrow for a handful of repeats, so the percentiles are moved outwards as Hesterberg proposes (What Teachers
Should Know About the Bootstrap, 2015, section 3.3: expanded percentile interval).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

RESAMPLES = 10_000
LEAST = 5
"""Repeats without which there is no interval. What is drawn from runs stays between the least and the most of
them, and the true mean lies there in 75 of 100 cases for three runs, 88 for four, 94 for five."""
LEVEL = 0.95

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Range of the true value with 95 % confidence."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One figure over the repeats of one environment."""

    count: int
    mean: float
    median: float
    p95: float
    least: float
    most: float
    interval: Interval | None
    """Interval of the mean; None for fewer than five repeats."""
    median_interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One side's mean divided by another's."""

    value: float
    interval: Interval | None

    @property
    def clear(self) -> bool:
        """Return whether the two differ at all, by the measurements."""
        return self.interval is not None and not self.interval.holds(1.0)


def summary(values: Sequence[float], rng: np.random.Generator) -> Summary | None:
    """None where nothing was measured."""
    if not values:
        return None
    data = np.asarray(values, dtype=np.float64)
    enough = len(data) >= LEAST
    drawn = _drawn(data, rng) if enough else None
    return Summary(
        count=len(data),
        mean=float(data.mean()),
        median=float(np.median(data)),
        p95=float(np.percentile(data, 95)),
        least=float(data.min()),
        most=float(data.max()),
        interval=None if drawn is None else _interval(drawn.mean(axis=1), len(data)),
        median_interval=None if drawn is None else _interval(np.median(drawn, axis=1), len(data)),
    )


def ratio(ours: Sequence[float], theirs: Sequence[float], rng: np.random.Generator) -> Ratio | None:
    """Mean of ours by mean of theirs; None where either is missing, or theirs is nothing."""
    return combined([ours, theirs], lambda means: means[0] / means[1], rng, nonzero=(1,))


def combined(
    groups: Sequence[Sequence[float]],
    formula: Callable[[Sequence[Values]], Values],
    rng: np.random.Generator,
    *,
    nonzero: Sequence[int] = (),
) -> Ratio | None:
    """A formula of the means of several groups of repeats, and its interval."""
    data = [np.asarray(group, dtype=np.float64) for group in groups]
    if any(len(group) == 0 for group in data) or any(data[place].mean() == 0 for place in nonzero):
        return None
    value = float(formula([np.asarray([group.mean()]) for group in data])[0])
    fewest = min(len(group) for group in data)
    if fewest < LEAST:
        return Ratio(value=value, interval=None)
    means = [_drawn(group, rng).mean(axis=1) for group in data]
    with np.errstate(divide="ignore", invalid="ignore"):
        made = formula(means)
    made = made[np.isfinite(made)]
    return Ratio(value=value, interval=_interval(made, fewest) if len(made) else None)


def _drawn(data: Values, rng: np.random.Generator) -> Values:
    """Draw so many repeats, again and again out of those that were made."""
    return data[rng.integers(0, len(data), size=(RESAMPLES, len(data)))]


def _interval(made: Values, count: int) -> Interval:
    tail = _tail(count)
    low, high = np.quantile(made, [tail, 1.0 - tail])
    return Interval(low=float(low), high=float(high))


def _tail(count: int) -> float:
    """The part cut off at each end, for so many repeats: less than 2.5 %, the fewer they are."""
    wider = math.sqrt(count / (count - 1)) * float(stdtrit(count - 1, (1.0 + LEVEL) / 2))
    return float(ndtr(-wider))
