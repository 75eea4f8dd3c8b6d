"""Demand of jobs compared with their allocation and the capacity, over time. Pure.

A job wants the most that it can use while it holds GPUs or would start if GPUs were free (`wants`). If all
jobs are visible this follows from their spans; otherwise from the counts of each minute, which cover them
all.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grus.api.scaling_wire import SupplyOut
from grus.api.wire_types.timestamps import rfc3339
from grus.reports.history_types import JobPast, PoolHistory, Span
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Series

Floats = NDArray[np.float64]
BINS = 240
"""Points of time that are drawn."""
HOUR = 3600.0
SCALED = "scaled"
"""The kind of event with which a person sets the size of a job."""


@dataclass(frozen=True, slots=True)
class SupplySeries:
    """Step functions of one time: `values[i]` holds from `edges[i]` to `edges[i + 1]`. NaN: not known."""

    edges: Floats
    demand: Floats
    held: Floats
    capacity: Floats

    @property
    def seconds(self) -> Floats:
        return np.diff(self.edges)


def supply(past: PoolHistory) -> SupplyOut | None:
    """None where nothing is known: no job was there, and nothing was counted."""
    course = of_jobs(past) if past.whole else of_counts(past)
    if course is None or not np.isfinite(course.demand).any():
        return None
    known = np.isfinite(course.demand) & np.isfinite(course.held) & np.isfinite(course.capacity)
    seconds = np.where(known, course.seconds, 0.0)
    wanted, free = missing(course), np.maximum(course.capacity - course.held, 0.0)
    unmet = np.minimum(wanted, free)
    beyond = np.maximum(course.demand - course.capacity, 0.0)
    step = float(course.edges[-1] - course.edges[0]) / BINS
    return SupplyOut(
        start=rfc3339(float(course.edges[0])),
        step=step,
        demand=binned(course, course.demand),
        held=binned(course, course.held),
        capacity=binned(course, course.capacity),
        wanted_gpu_hours=_hours(course.demand, seconds),
        held_gpu_hours=_hours(course.held, seconds),
        unmet_gpu_hours=_hours(unmet, seconds),
        beyond_gpu_hours=_hours(beyond, seconds),
        unmet_time=_part(np.where(np.nan_to_num(unmet) > 0, seconds, 0.0), seconds),
        source="jobs" if past.whole else "counts",
    )


def missing(course: SupplySeries) -> Floats:
    """GPUs that were wanted and not had."""
    return np.maximum(course.demand - course.held, 0.0)


def _hours(values: Floats, seconds: Floats) -> float:
    return float(np.nansum(values * seconds)) / HOUR


def _part(some: Floats, whole: Floats) -> float:
    total = float(whole.sum())
    return float(some.sum()) / total if total > 0 else 0.0


# ------------------------------------------------------------------------------------------------ from jobs


def of_jobs(past: PoolHistory) -> SupplySeries | None:
    """Return the course from the first job that was there on. The capacity is as counted, else that of the
    present pool.
    """
    spans = [(job, span) for job in past.jobs for span in _parted(job) if past.within(span) > 0]
    if not spans:
        return None
    begin = max(past.since, min(span.start for _, span in spans))
    capacity = past.pool.get(Measure.CAPACITY)
    inside = [at for at in _grid(capacity) if begin < at < past.until]
    moments = {begin, past.until, *inside}
    for _, span in spans:
        moments |= {at for at in (span.start, span.end) if begin < at < past.until}
    edges = np.array(sorted(moments), dtype=np.float64)
    return SupplySeries(
        edges=edges,
        demand=_sum(edges, spans, wants),
        held=_sum(edges, spans, lambda _, span: span.gpus),
        capacity=_capacity(edges, capacity, float(past.gpus)),
    )


def _parted(job: JobPast) -> Iterable[Span]:
    """Its spans, parted where a person first set its size."""
    scaled = next((event.at for event in job.events if event.kind == SCALED), math.inf)
    for span in job.spans:
        if span.start < scaled < span.end:
            yield replace(span, end=scaled)
            yield replace(span, start=scaled)
        else:
            yield span


def wants(job: JobPast, span: Span) -> float:
    """GPUs that a job wants in a span: the most that it can use, if it holds any or waits for room. Once a
    person has set its size, what it holds is what is wanted; while it waits, the fewest that it runs with."""
    if not (span.holding or span.waits):
        return 0.0
    if any(event.kind == SCALED and event.at <= span.start for event in job.events):
        return span.gpus or job.asked
    return max(job.most, span.gpus)


def _sum(
    edges: Floats, spans: Iterable[tuple[JobPast, Span]], amount: Callable[[JobPast, Span], float]
) -> Floats:
    steps = np.zeros(len(edges))
    for job, span in spans:
        first, last = np.searchsorted(edges, [span.start, span.end])
        size = amount(job, span)
        steps[first] += size
        if last < len(edges):
            steps[last] -= size
    return np.maximum(np.cumsum(steps)[:-1], 0.0)


def _grid(series: Series | None) -> Iterable[float]:
    return () if series is None else (series.start + series.step * np.arange(len(series.values))).tolist()


def _capacity(edges: Floats, series: Series | None, now: float) -> Floats:
    found = np.full(len(edges) - 1, now)
    if series is None or not len(series.values):
        return found
    places = np.floor((edges[:-1] - series.start) / series.step).astype(int)
    inside = (places >= 0) & (places < len(series.values))
    counted = np.where(inside, series.values[np.clip(places, 0, len(series.values) - 1)], np.nan)
    return np.where(np.isfinite(counted), counted, found)


# ---------------------------------------------------------------------------------------------- from counts


def of_counts(past: PoolHistory) -> SupplySeries | None:
    """Return the course as counted each minute; None unless all three series exist."""
    series = [past.pool.get(measure) for measure in (Measure.DEMAND, Measure.HELD, Measure.CAPACITY)]
    known = [one for one in series if one is not None]
    if len(known) < len(series):
        return None
    first, count = known[0], min(len(one.values) for one in known)
    edges = first.start + first.step * np.arange(count + 1, dtype=np.float64)
    return SupplySeries(edges, *(one.values[:count] for one in known))


# ------------------------------------------------------------------------------------------------- drawing


def binned(course: SupplySeries, values: Floats) -> tuple[float | None, ...]:
    """Return means over equal parts of the time; None for a part without any known value."""
    known = np.isfinite(values)
    area = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0) * course.seconds)])
    length = np.concatenate([[0.0], np.cumsum(np.where(known, 1.0, 0.0) * course.seconds)])
    at = np.linspace(course.edges[0], course.edges[-1], BINS + 1)
    areas = np.diff(np.interp(at, course.edges, area)).tolist()
    lengths: Sequence[float] = np.diff(np.interp(at, course.edges, length)).tolist()
    return tuple(_mean(part, long) for part, long in zip(areas, lengths, strict=True))


def _mean(area: float, length: float) -> float | None:
    return round(area / length, 4) if length > 0 and math.isfinite(area) else None
