"""Duration of one job of the present: from its own report, from similar jobs, or unknown."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.model.identifiers import JobId
from grus.model.jobs import Job, JobType
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.simulator.forecasting.durations import NO_END, Durations, Law, Traits
from grus.simulator.workload.job_history import gpus_asked

NO_HISTORY = "no finished job like it, no reported progress, no time limit"
STOPPED_BY_PEOPLE = {
    JobType.DEV: "a session ends when it is stopped",
    JobType.SERVE: "it answers until it is stopped",
}
"""Types of job that have no length of their own, and why."""


@dataclass(frozen=True, slots=True)
class ForecastJob:
    """A job as it stands, with what its record does not say."""

    job: Job
    ran: float = 0.0
    """Seconds that it has run so far, in all its attempts."""
    limit: float | None = None
    """Seconds in all after which it is ended."""
    after: tuple[JobId, ...] = ()
    """Jobs that must succeed before it may start, and have not yet."""
    outlook: Outlook | None = None
    """The scheduler's record of its speed at other sizes."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The whole duration of one job: from its own report, from similar jobs, or unknown."""

    law: Law
    ran: float
    unknown: str = ""
    """Reason why its end is unknown; empty if it is known."""
    pace: float | None = None
    """Seconds in all by the progress that it reports."""

    def draws(self, chances: NDArray[np.float64]) -> list[float]:
        """Its whole lengths at these chances; each more than what it has run."""
        found: list[float] = np.maximum(self.lengths(chances), self.ran + 1.0).tolist()
        return found

    def lengths(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.pace is None:
            return self.law.quantiles(chances, self.ran)
        # The rest by its own report, give or take a quarter: logistic in the logarithm, a simple spread.
        left = max(self.pace - self.ran, 1.0) * (chances / (1.0 - chances)) ** 0.15
        return np.minimum(self.ran + left, self.law.limit)


def expected(one: ForecastJob, durations: Durations, now: float) -> Expected:
    """Estimate the length of a job. Reported progress takes precedence over history; a time limit bounds
    both, and is all that others can count on if nothing else is known.
    """
    job = one.job
    if (reason := STOPPED_BY_PEOPLE.get(job.spec.type)) is not None:
        return Expected(NO_END.capped(one.limit), one.ran, reason)
    found = durations.law(job.id, traits_of(job), now)
    pace = pace_of(job, one.ran)
    known = found is not None or pace is not None or one.limit is not None
    return Expected((found or NO_END).capped(one.limit), one.ran, "" if known else NO_HISTORY, pace)


def traits_of(job: Job) -> Traits:
    spec = job.spec
    return Traits(spec.name, job.user, spec.queue, gpus_asked(spec.request))


def pace_of(job: Job, ran: float) -> float | None:
    """Return the seconds that it takes in all, if its reported pace continues (`step` or `epoch` of
    `total`).
    """
    said = dict(job.progress)
    total = said.get("total", 0.0)
    done = said.get("step", said.get("epoch", 0.0))
    return ran * total / done if total > 0.0 and 0.0 < done <= total and ran > 0.0 else None
