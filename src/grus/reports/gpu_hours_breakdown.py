"""GPU-hours: the capacity, its uses, and the waste by cause. Pure.

All figures are of one window of time and in GPU-hours. They add up:

    capacity  = allocated + waiting + fragmentation + unwanted
    allocated = busy + idle + over-asking + unmeasured
    busy      = useful + the busy part of restarted work and of jobs that failed

    capacity       GPUs that might be used, as counted each minute; without counts, the present ones
    allocated      GPUs allocated to jobs, from the events in which that began and ended
    measured       the part of allocated for which the jobs' utilization is on record
    busy           measured hours × utilization
    useful         busy hours of work that was not repeated and whose job did not fail
    idle           measured hours × (the job's usual most − its utilization): allocated, and now at rest
    over-asking    measured hours × (1 − the job's usual most): allocated, and never used by it; the usual
                   most is the utilization that it exceeds in a twentieth of its time
    restarted      allocated hours of later attempts until they were as far as the ones before (`lives`)
    failed         allocated hours of jobs that ended as failed, except the restarted ones
    waiting        GPUs that were free while jobs waited, up to the request of these, except stranded ones
    fragmentation  GPUs that were free and stranded: in their positions of no use to any job that waited
    unwanted       GPUs that were free beyond all waiting requests

Restarted and failed hours are a second view of allocated ones: they show the purpose, idle and over-asking
the use. A value that is not measured is None, never zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.reports.history_types import JobPast, PoolHistory, Span
from grus.reports.integrate_series import Steps, Sum, edges, grid, over, sampled, within
from grus.reports.job_timeline import Interval, restarted
from grus.telemetry.samples import Measure

HOUR = 3600.0
USUAL_MOST = 0.95
"""The part of a job's time in which it uses no more than its usual most."""
LEAST_WATCHED = 60.0
"""Seconds for which a job must have been watched, for its usual most to mean something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedHours:
    """Breakdown of the GPU-hours that were allocated to jobs."""

    allocated: float = 0.0
    measured: float = 0.0
    busy: float | None = None
    useful: float | None = None
    idle: float | None = None
    over_asking: float | None = None
    restarted: float = 0.0
    failed: float = 0.0

    @property
    def unmeasured(self) -> float:
        return max(0.0, self.allocated - self.measured)

    @property
    def utilisation(self) -> float | None:
        """Busy of measured, 0 to 1."""
        return self.busy / self.measured if self.busy is not None and self.measured > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHours:
    """One job's part."""

    past: JobPast
    held: AllocatedHours
    waited: float
    """Seconds that it waited though it could have run."""
    ran: float
    """Seconds that it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """The whole window. What depends on all jobs is None where the user does not see them all."""

    since: float
    until: float
    capacity: float
    held: AllocatedHours
    demand: float
    """GPUs allocated to jobs, or requested by those that waited."""
    waiting: float | None = None
    fragmentation: float | None = None
    unwanted: float | None = None


class LifetimeTotals(NamedTuple):
    """Facts about a job's whole life, independent of the window."""

    again: Sequence[Interval]
    """Intervals in which it held GPUs to get back to its earlier progress."""
    most: float
    """Its usual most."""


Wholes = Mapping[JobId, LifetimeTotals]


def hours(past: PoolHistory, wholes: Wholes | None = None) -> tuple[Hours, tuple[JobHours, ...]]:
    """The window's figures, and those of each job that was there; `wholes` where these are known already."""
    known = _wholes(past) if wholes is None else wholes
    jobs = tuple(of_job(one, past.since, past.until, known[one.id]) for one in past.jobs)
    held = total(one.held for one in jobs)
    capacity, demand, free_and_wanted = _of_pool(past)
    found = Hours(since=past.since, until=past.until, capacity=capacity, held=held, demand=demand)
    if not past.whole:
        return found, jobs
    stranded = over(past.pool.get(Measure.STRANDED), past.since, past.until)
    fragmented = min(stranded.amount / HOUR, free_and_wanted) if stranded.seconds else None
    return (
        replace(
            found,
            waiting=free_and_wanted - (fragmented or 0.0),
            fragmentation=fragmented,
            unwanted=max(0.0, capacity - held.allocated - free_and_wanted),
        ),
        jobs,
    )


def timeline(past: PoolHistory, step: float) -> list[Hours]:
    """The window in parts that begin at whole multiples of `step` seconds, so at midnight (UTC) if that is a
    day; the first and the last may be shorter."""
    whole = np.arange(np.floor(past.since / step) + 1, np.ceil(past.until / step)) * step
    wholes = _wholes(past)
    parts = []
    for start, end in pairwise([past.since, *whole.tolist(), past.until]):
        there = tuple(one for one in past.jobs if _there(one, start, end))
        parts.append(hours(replace(past, since=start, until=end, jobs=there), wholes)[0])
    return parts


def _wholes(past: PoolHistory) -> Wholes:
    return {one.id: LifetimeTotals(restarted(one), usual_most(one)) for one in past.jobs}


def _there(past: JobPast, start: float, end: float) -> bool:
    return bool(past.spans) and past.spans[0].start < end and past.spans[-1].end > start


# ------------------------------------------------------------------------------------------- of a job


def of_job(past: JobPast, since: float, until: float, whole: LifetimeTotals) -> JobHours:
    """Return the breakdown of the hours that were allocated to a job between two moments."""
    return JobHours(
        past=past,
        held=_held(past, since, until, whole),
        waited=sum(_seconds(span.start, span.end, since, until) for span in past.spans if span.waits),
        ran=sum(
            _seconds(span.start, span.end, since, until) for span in past.spans if span.phase is Phase.RUNNING
        ),
    )


def _held(past: JobPast, since: float, until: float, whole: LifetimeTotals) -> AllocatedHours:
    allocated, used = use(past, since, until)
    if not allocated:
        return AllocatedHours()
    lives = [use(past, max(since, one.start), min(until, one.end)) for one in whole.again]
    lost = sum(held for held, _ in lives)
    failed = past.job.phase is Phase.FAILED
    found = AllocatedHours(
        allocated=allocated, measured=used.seconds, restarted=lost, failed=allocated - lost if failed else 0.0
    )
    if not used.seconds:
        return found
    busy_again = sum(seen.amount for _, seen in lives)
    never = min(used.seconds - used.amount, used.seconds * (1.0 - whole.most))
    return replace(
        found,
        busy=used.amount,
        useful=0.0 if failed else max(0.0, used.amount - busy_again),
        idle=used.seconds - used.amount - never,
        over_asking=never,
    )


def use(past: JobPast, since: float, until: float) -> tuple[float, Sum]:
    """GPU-hours that a job held between two moments, and of these the measured and the busy ones."""
    held = measured = busy = 0.0
    for span in past.spans:
        start, end = max(since, span.start), min(until, span.end)
        if end <= start or not span.gpus:
            continue
        held += (end - start) * span.gpus
        seen = over(past.utilisation, start, end)
        measured += seen.seconds * span.gpus
        busy += seen.amount * span.gpus
    if past.utilisation is None and held:
        seen = _by_run(past, held)
        measured, busy = seen.seconds, seen.amount
    return held / HOUR, Sum(measured / HOUR, busy / HOUR)


def _by_run(past: JobPast, held: float) -> Sum:
    """Return the part's share of the whole run's sums, for a job without a recorded series over time."""
    uses = () if past.run is None else past.run.uses
    watched = sum(one.gpus * sum(one.levels) for one in uses) / GPU
    in_all = sum(span.gpu_seconds for span in past.held)
    if watched <= 0 or in_all <= 0:
        return Sum(0.0, 0.0)
    busy = sum(one.gpus * one.busy for one in uses) / GPU
    measured = held * min(1.0, watched / in_all)
    return Sum(measured, measured * busy / watched)


def usual_most(past: JobPast) -> float:
    """Return the utilization that the job exceeds in a twentieth of its time; 1 if that is unknown. It covers
    all the time on record, so that the parts of a window add up to the whole.
    """
    if past.utilisation is not None:
        found = np.concatenate(
            [within(past.utilisation, span.start, span.end) for span in past.held] or [np.empty(0)]
        )
        if len(found) * past.utilisation.step < LEAST_WATCHED:
            return 1.0
        return float(np.quantile(found, USUAL_MOST))
    known = [one.p95 for one in (past.run.uses if past.run else ()) if one.seconds >= LEAST_WATCHED]
    return max((p95 for p95 in known if p95 is not None), default=1.0)


def _seconds(start: float, end: float, since: float, until: float) -> float:
    return max(0.0, min(end, until) - max(start, since))


# ------------------------------------------------------------------------------------------ of all jobs


def total(parts: Iterable[AllocatedHours]) -> AllocatedHours:
    """Several together; a figure is None if it is None of all of them."""
    known = list(parts)

    def added(values: Iterable[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return sum(there) if there else None

    return AllocatedHours(
        allocated=sum(one.allocated for one in known),
        measured=sum(one.measured for one in known),
        busy=added(one.busy for one in known),
        useful=added(one.useful for one in known),
        idle=added(one.idle for one in known),
        over_asking=added(one.over_asking for one in known),
        restarted=sum(one.restarted for one in known),
        failed=sum(one.failed for one in known),
    )


def _of_pool(past: PoolHistory) -> tuple[float, float, float]:
    """Capacity, demand, and what stood free while jobs waited for it."""
    held = Steps(change for one in past.jobs for span in one.held for change in _edges(span, span.gpus))
    wanted = Steps(
        change for one in past.jobs for span in one.spans if span.waits for change in _edges(span, one.asked)
    )
    there = past.pool.get(Measure.CAPACITY)
    found = grid(past.since, past.until, [held.moments, wanted.moments, edges(there)])
    capacity = sampled(there, found.begins + found.spans / 2, float(past.gpus))
    now_held, now_wanted = held.at(found.begins), wanted.at(found.begins)
    free = np.minimum(np.maximum(0.0, capacity - now_held), now_wanted)
    return (
        float((capacity * found.spans).sum()) / HOUR,
        float(((now_held + now_wanted) * found.spans).sum()) / HOUR,
        float((free * found.spans).sum()) / HOUR,
    )


def _edges(span: Span, amount: float) -> Sequence[tuple[float, float]]:
    return (span.start, amount), (span.end, -amount)
