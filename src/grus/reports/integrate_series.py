"""Amounts over time: what a recorded series comes to between two moments, and steps added up. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grus.telemetry.tsdb import Series


class Sum(NamedTuple):
    """A value over time."""

    seconds: float
    """Seconds for which it is known."""
    amount: float
    """Seconds × value."""

    @property
    def mean(self) -> float | None:
        return self.amount / self.seconds if self.seconds > 0 else None


NOTHING = Sum(0.0, 0.0)


def over(series: Series | None, start: float, end: float) -> Sum:
    """Integrate a series between two moments; gaps in the series count as nothing."""
    if series is None or end <= start or not len(series.values):
        return NOTHING
    first = max(0, int((start - series.start) // series.step))
    last = min(len(series.values), int(np.ceil((end - series.start) / series.step)))
    if first >= last:
        return NOTHING
    values = series.values[first:last]
    begins = series.start + np.arange(first, last) * series.step
    spans = np.minimum(begins + series.step, end) - np.maximum(begins, start)
    known = ~np.isnan(values) & (spans > 0)
    return Sum(float(spans[known].sum()), float((spans[known] * values[known]).sum()))


def within(series: Series | None, start: float, end: float) -> NDArray[np.float64]:
    """The known values between two moments."""
    if series is None:
        return np.empty(0)
    middles = series.times
    there = (middles >= start) & (middles < end) & ~np.isnan(series.values)
    return series.values[there]


class Steps:
    """A value that changes at moments: added up from its changes."""

    def __init__(self, changes: Iterable[tuple[float, float]]) -> None:
        """Moments, and by how much it changes there; it is zero before the first."""
        summed: dict[float, float] = {}
        for at, by in changes:
            summed[at] = summed.get(at, 0.0) + by
        self.moments = np.array(sorted(summed))
        self.values = np.cumsum([summed[at] for at in self.moments.tolist()])

    def at(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """The value from each of these moments on."""
        if not len(self.moments):
            return np.zeros(len(moments))
        place = np.searchsorted(self.moments, moments, side="right") - 1
        return np.where(place >= 0, self.values[np.maximum(place, 0)], 0.0)


class Grid(NamedTuple):
    """Intervals that follow each other."""

    begins: NDArray[np.float64]
    spans: NDArray[np.float64]


def grid(start: float, end: float, moments: Iterable[Sequence[float] | NDArray[np.float64]]) -> Grid:
    """All these moments between two, as intervals in which nothing changes."""
    known = np.concatenate([np.array([start, end]), *(np.asarray(some) for some in moments)])
    edges = np.unique(known[(known >= start) & (known <= end)])
    return Grid(edges[:-1], np.diff(edges))


def sampled(series: Series | None, moments: NDArray[np.float64], otherwise: float) -> NDArray[np.float64]:
    """The value of a series at moments; `otherwise` where it says nothing."""
    if series is None or not len(series.values):
        return np.full(len(moments), otherwise)
    place = np.floor((moments - series.start) / series.step).astype(np.int64)
    inside = (place >= 0) & (place < len(series.values))
    values = np.where(inside, series.values[np.clip(place, 0, len(series.values) - 1)], np.nan)
    return np.where(np.isnan(values), otherwise, values)


def edges(series: Series | None) -> NDArray[np.float64]:
    """Return the edges of a series' steps."""
    if series is None:
        return np.empty(0)
    return series.start + np.arange(len(series.values) + 1, dtype=np.float64) * series.step
