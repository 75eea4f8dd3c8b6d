"""Small pasts: jobs with the events, spans and reports that a server would have kept of them."""

from dataclasses import replace

from grus.model.identifiers import JobId
from grus.model.interfaces import Event
from grus.model.jobs import Phase
from grus.model.metrics_history import Reported, curves
from grus.model.profiles import GpuUsage, ProfiledRun, Speed
from grus.model.resources import GPU
from grus.reports.history_types import JobPast, PoolHistory, Span
from tests.scheduler.builders import a_job

V100 = "V100"


def an_event(
    at: float, kind: str, held: float = 0, working: float = 0, *, attempt: int = 1, lost: int = 0
) -> Event:
    return Event(
        at=at,
        kind=kind,
        text="",
        job=JobId("j"),
        attempt=attempt,
        held=round(held * GPU),
        working=round(working * GPU),
        lost=lost,
    )


def a_report(at: float, step: float, gpus: float, *, attempt: int = 1, **figures: float) -> Reported:
    told = tuple({"step": step, **figures}.items())
    return Reported(
        job=JobId("j"), number=int(at * 1000), attempt=attempt, at=at, figures=told, gpus=round(gpus * GPU)
    )


def a_span(start: float, end: float, gpus: float, *, waits: bool = False, attempt: int = 1) -> Span:
    phase = Phase.RUNNING if gpus else Phase.PENDING
    return Span(start=start, end=end, phase=phase, attempt=attempt, gpus=gpus, began=phase.value, waits=waits)


def a_past_job(
    name: str = "j",
    *events: Event,
    gpus: str | int = 1,
    asked: float = 1,
    most: float = 1,
    reports: tuple[Reported, ...] = (),
    spans: tuple[Span, ...] = (),
    speeds: tuple[Speed, ...] = (),
    fingerprint: str = "",
    type: str = V100,
    phase: Phase = Phase.SUCCEEDED,
    queue: str = "default",
) -> JobPast:
    job = replace(a_job(name, gpus=gpus, queue=queue), phase=phase)
    return JobPast(
        job=job,
        spans=spans,
        events=tuple(replace(event, job=job.id, seq=n) for n, event in enumerate(events, 1)),
        asked=asked,
        most=most,
        curves=curves(replace(one, job=job.id) for one in reports),
        run=ProfiledRun(job=job.id, at=0.0, uses=(GpuUsage(type=type, gpus=GPU),)),
        fingerprint=fingerprint,
        speeds=speeds,
    )


def a_past(*jobs: JobPast, since: float = 0.0, until: float = 1000.0, whole: bool = True) -> PoolHistory:
    return PoolHistory(since=since, until=until, jobs=jobs, whole=whole)
