"""Pasts whose jobs are told by their events, as the recorder and the store would tell them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grus.model.identifiers import JobId
from grus.model.interfaces import Event
from grus.model.jobs import Job, Phase
from grus.model.metrics_history import Reported, curves
from grus.model.resources import GPU
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.job_timeline import Ended, spans
from grus.telemetry.tsdb import Series
from tests.scheduler.builders import a_job, a_pool

ENDS = {"succeeded": Phase.SUCCEEDED, "failed": Phase.FAILED, "stopped": Phase.STOPPED}
Happened = Sequence[tuple[float, str, float]]
"""When, what, and the GPUs held from then on."""


def events_of(job: JobId, happened: Happened) -> tuple[Event, ...]:
    """An attempt begins with each `starting`."""
    attempt, found = 0, []
    for number, (at, kind, gpus) in enumerate(happened, start=1):
        attempt += kind == "starting"
        held = round(gpus * GPU)
        found.append(Event(at=at, kind=kind, text="", job=job, attempt=attempt, held=held, seq=number))
    return tuple(found)


def a_life(
    name: str,
    happened: Happened,
    *,
    until: float = 1000.0,
    busy: Series | None = None,
    reports: Sequence[tuple[float, int, dict[str, float]]] = (),
    ended: Ended = lambda _: None,
    job: Job | None = None,
    asked: float = 1.0,
) -> JobPast:
    """A job that lived like this; `reports` are (when, in which attempt, figures)."""
    given = job or a_job(name)
    events = events_of(given.id, happened)
    last = events[-1]
    known = replace(
        given,
        submitted_at=events[0].at,
        phase=ENDS.get(last.kind, given.phase),
        ended_at=last.at if last.kind in ENDS else None,
        attempt=last.attempt,
    )
    told = [
        Reported(job=known.id, number=number, attempt=attempt, at=at, figures=tuple(figures.items()))
        for number, (at, attempt, figures) in enumerate(reports)
    ]
    return JobPast(
        job=known,
        events=events,
        spans=spans(known, events, asked, until, ended),
        asked=asked,
        most=asked,
        utilisation=busy,
        curves=curves(told),
    )


def a_series(start: float, step: float, *values: float | None) -> Series:
    return Series(start, step, np.array([np.nan if value is None else value for value in values]))


def a_past(*jobs: JobPast, since: float = 0.0, until: float = 1000.0, pool: str = "1x4") -> PoolHistory:
    return PoolHistory(since=since, until=until, jobs=jobs, nodes=a_pool(pool))
