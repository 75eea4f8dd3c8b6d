"""How long one job of the present will run: by its own report, by the jobs like it, or by nothing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.model.identifiers import JobId
from grus.model.jobs import Job, JobType
from grus.scheduling.outlook import Outlook
from grus.simulation.durations import NO_END, Durations, Law, Traits
from grus.simulation.history import gpus_asked

NO_HISTORY = "no finished job like it, no reported progress, no time limit"
STOPPED_BY_PEOPLE = {
    JobType.DEV: "a session ends when it is stopped",
    JobType.SERVE: "it answers until it is stopped",
}
"""Types of job that have no length of their own, and why."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A job as it stands, with what its record does not say."""

    job: Job
    ran: float = 0.0
    """Seconds that it has run so far, in all its attempts."""
    limit: float | None = None
    """Seconds in all after which it is ended."""
    after: tuple[JobId, ...] = ()
    """Jobs that must succeed before it may start, and have not yet."""
    outlook: Outlook | None = None
    """What the scheduler knows of its speed at other sizes."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How long one job will run in all: by its own report, by those like it, or by nothing."""

    law: Law
    ran: float
    unknown: str = ""
    """Why its end cannot be said; empty if it can."""
    pace: float | None = None
    """Seconds in all by the progress that it reports."""

    def draws(self, chances: NDArray[np.float64]) -> list[float]:
        """Its whole lengths at these chances; each more than what it has run."""
        found: list[float] = np.maximum(self.lengths(chances), self.ran + 1.0).tolist()
        return found

    def lengths(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.pace is None:
            return self.law.quantiles(chances, self.ran)
        # What is left by its own report, give or take a quarter: logistic in the logarithm, a simple spread.
        left = max(self.pace - self.ran, 1.0) * (chances / (1.0 - chances)) ** 0.15
        return np.minimum(self.ran + left, self.law.limit)


def expected(one: Standing, durations: Durations, now: float) -> Expected:
    """Known length of a job. A reported progress beats history; a time limit bounds both, and is all
    that others can count on where nothing else is known."""
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
    """Seconds that it takes in all, if it goes on as it reports (`step` or `epoch` of `total`)."""
    said = dict(job.progress)
    total = said.get("total", 0.0)
    done = said.get("step", said.get("epoch", 0.0))
    return ran * total / done if total > 0.0 and 0.0 < done <= total and ran > 0.0 else None
