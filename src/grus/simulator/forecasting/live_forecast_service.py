"""Forecasts for a live pool: stores the facts about jobs, and forecasts those that are alive."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.simulator.forecasting.durations import Durations
from grus.simulator.forecasting.eta_prediction import (
    DAY,
    LOOK_BACK,
    WORLDS,
    Enough,
    Forecast,
    Present,
    forecast,
)
from grus.simulator.forecasting.expected_duration import traits_of
from grus.simulator.workload.job_history import lasting
from grus.simulator.workload.job_work import TraceJob

MOST_REMEMBERED = 20_000
"""Arrivals of the last days."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A job as it is on record, and how long it ran in all up to its end or to its present attempt."""

    job: Job
    ran: float = 0.0


@dataclass(frozen=True, slots=True)
class ForecastQuery:
    """A request to forecast these jobs (all, if none is named), in about so many seconds."""

    present: Present
    asked: tuple[JobId, ...] | None = None
    seconds: float = 3.0
    worlds: int = WORLDS


class JobForecaster:
    """Facts may come in any order and more than once."""

    def __init__(self) -> None:
        self._durations = Durations()
        self._known: dict[JobId, Job] = {}
        """Jobs that have come and not ended."""
        self._came: deque[tuple[JobId, Job]] = deque(maxlen=MOST_REMEMBERED)
        self._lengths: dict[JobId, float] = {}

    def learn(self, facts: Sequence[Fact]) -> None:
        """Take note of what became of jobs."""
        for fact in sorted(facts, key=lambda fact: (fact.job.submitted_at, fact.job.id)):
            self._come(fact.job)
        begun = [fact for fact in facts if fact.job.started_at is not None]
        for fact in sorted(begun, key=lambda fact: fact.job.first_started_at or 0.0):
            self._begin(fact)
        for fact in facts:
            if fact.job.terminal and fact.job.id in self._known:
                self._end(fact)

    def _come(self, job: Job) -> None:
        if job.id in self._known or job.id in self._lengths:
            return
        self._known[job.id] = job
        if len(self._came) == self._came.maxlen:
            self._lengths.pop(self._came[0][0], None)
        self._came.append((job.id, job))
        self._durations.came(job.id, traits_of(job), job.submitted_at)

    def _begin(self, fact: Fact) -> None:
        job = fact.job
        known = self._known.get(job.id)
        if known is not None and job.started_at is not None and (job is known or job.attempt > known.attempt):
            self._durations.began(job.id, traits_of(job), job.started_at - fact.ran)
            self._known[job.id] = job

    def _end(self, fact: Fact) -> None:
        job = fact.job
        del self._known[job.id]
        self._durations.ended(job.id, fact.ran)
        self._lengths[job.id] = fact.ran if job.started_at is not None else 0.0

    def foresee(self, ask: ForecastQuery, enough: Enough = lambda _: False) -> dict[JobId, Forecast]:
        """Start and end of each asked job; `enough` is for a caller who has a clock."""
        return forecast(
            ask.present,
            self._durations,
            asked=ask.asked,
            arrivals=self._arrivals(ask.present.now),
            worlds=ask.worlds,
            enough=enough,
        )

    def _arrivals(self, now: float) -> list[TraceJob]:
        """Return the jobs that came lately and ran; one that has not ended counts with twice its age."""
        works = []
        for id_, job in self._came:
            if job.submitted_at < now - LOOK_BACK * DAY:
                continue
            known = self._known.get(id_)
            length = self._lengths.get(id_, 0.0)
            if known is not None and known.started_at is not None:
                length = 2 * (now - known.started_at)
            if length > 0.0:
                works.append(lasting(replace(job, seats=()), length))
        return sorted(works, key=lambda work: (work.submit, work.id))
