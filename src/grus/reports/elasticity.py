"""Elasticity: does a job start below its maximum, survive the loss of a worker, and use workers that join
late?

Each answer comes from events, never from the request; an ability that was not exercised is None. Besides, the
times that jobs took to adapt, and the demand of all of them compared with their allocation.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from grus.api.scaling_wire import AdaptingOut, CourseOut, ElasticityOut, ElasticJobOut
from grus.api.wire_types.timestamps import rfc3339
from grus.model.resources import GPU
from grus.model.texts.units import gpu_number
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.rescale_events import RUNNING, Resize, ResizeKind, course, losses, resizes, restarts
from grus.reports.supply_and_demand import supply

LOSS = "loss"
MOST_JOBS = 200
"""Number of jobs that are listed one by one; all of them count."""


def elasticity(past: PoolHistory) -> ElasticityOut:
    """Return the elasticity of the jobs that existed between two moments, each with its whole life."""
    jobs = [one for job in past.jobs if (one := _job_out(job)) is not None]
    adapting = tuple(_adapting(past))
    shown = sorted(jobs, key=lambda job: -len(job.course))[:MOST_JOBS]
    return ElasticityOut(
        jobs=tuple(shown),
        jobs_in_all=len(jobs),
        adapting=adapting,
        supply=supply(past),
        sentence=_sentence(jobs, adapting),
    )


# --------------------------------------------------------------------------------------------------- jobs


def _job_out(job: JobPast) -> ElasticJobOut | None:
    """None of a job that never ran, and of one that has nothing to show: it can use one number of GPUs only,
    and lost no worker."""
    lost, again = sum(one.workers for one in losses(job)), restarts(job)
    elastic = job.most > job.asked
    first = started_with(job)
    if first is None or not (elastic or lost or again):
        return None
    changes = resizes(job)
    return ElasticJobOut(
        job=job.id,
        name=job.job.spec.name,
        queue=job.job.spec.queue,
        asked=_gpus(job.asked),
        most=_gpus(job.most),
        starts_below=starts_below(job),
        survives_loss=survives_loss(job),
        uses_late=uses_late(changes),
        started_with=_gpus(first),
        lost=lost,
        late=sum(_joined(one) for one in changes),
        restarts=again,
        course=tuple(CourseOut(at=rfc3339(at), gpus=_gpus(size)) for at, size in course(job)),
    )


def started_with(job: JobPast) -> float | None:
    """GPUs with which it first ran; None if it never did, or that is not known."""
    first = next((event for event in job.events if event.kind == RUNNING), None)
    return None if first is None or first.working is None else first.working / GPU


def starts_below(job: JobPast) -> bool | None:
    """Return whether it started with fewer GPUs than it can use. False for a job that can use one number of
    GPUs only; None if all that it can use was there.
    """
    first = started_with(job)
    if job.most <= job.asked:
        return False
    return True if first is not None and first < job.most else None


def survives_loss(job: JobPast) -> bool | None:
    """Return whether the others continued when a worker was lost. False if the job had to restart instead;
    None if none was lost.
    """
    if restarts(job):
        return False
    return True if losses(job) else None


def uses_late(changes: Iterable[Resize]) -> bool | None:
    """Return whether workers that came later were seen to compute with the others; None if none came, or
    there is no report of it.
    """
    grown = [one for one in changes if one.how is ResizeKind.GROW]
    if any(_joined(one) for one in grown):
        return True
    return False if any(one.worked is False for one in grown) else None


def _joined(one: Resize) -> bool:
    return one.how is ResizeKind.GROW and one.seconds is not None


# ----------------------------------------------------------------------------------------- seconds to adapt


def _adapting(past: PoolHistory) -> Iterable[AdaptingOut]:
    taken: dict[str, list[float | None]] = {}
    for job in past.jobs:
        changes = [
            (one.how.value, one.at, one.seconds) for one in resizes(job) if one.how is not ResizeKind.MOVE
        ]
        changes += [(LOSS, one.at, one.seconds) for one in losses(job)]
        for kind, at, seconds in changes:
            if past.since <= at <= past.until:
                taken.setdefault(kind, []).append(seconds)
    for kind in (ResizeKind.GROW.value, ResizeKind.SHRINK.value, LOSS, ResizeKind.RESTART.value):
        if kind in taken:
            yield _adapting_out(kind, taken[kind])


def _adapting_out(kind: str, taken: Sequence[float | None]) -> AdaptingOut:
    known = [seconds for seconds in taken if seconds is not None]
    return AdaptingOut(
        to=kind,
        times=len(taken),
        measured=len(known),
        median=median(known) if known else None,
        longest=max(known, default=None),
    )


# -------------------------------------------------------------------------------------------------- words


def _sentence(jobs: Sequence[ElasticJobOut], adapting: Sequence[AdaptingOut]) -> str:
    if not jobs:
        return "No job that ran could change its size, or lost a worker."
    parts = [
        _count([job for job in jobs if job.most > job.asked], "starts_below", "started below their most"),
        _count(jobs, "survives_loss", "survived the loss of a worker"),
        _count(jobs, "uses_late", "used workers that came late"),
    ]
    shown = [part for part in parts if part]
    said = "No job was put to the test: none started below its most, lost a worker or got a late one."
    if shown:
        said = f"Of the jobs that were put to the test {', '.join(shown)}."
    grown = next(
        (one for one in adapting if one.to == ResizeKind.GROW.value and one.median is not None), None
    )
    if grown is not None and grown.median is not None:
        said += f" New workers computed with the others after {grown.median:.1f} s (median)."
    return said


def _count(jobs: Sequence[ElasticJobOut], test: str, words: str) -> str:
    tested = [job for job in jobs if getattr(job, test) is not None]
    if not tested:
        return ""
    return f"{sum(getattr(job, test) is True for job in tested)} of {len(tested)} {words}"


def _gpus(count: float) -> float | int:
    return gpu_number(round(count * GPU))
