"""Job dependencies: waiting jobs are held back until the jobs they depend on have succeeded (or ended, if so
requested).

Kept for jobs that have never started; once a job has run, its dependencies no longer matter.
"""

from collections.abc import Callable, Sequence

from grus.controlplane.jobs.lifecycle import JobChange, dependency_failed
from grus.controlplane.jobs.stage_cache import uncompared
from grus.model.errors import NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import Store
from grus.model.jobs import Job, Phase

Find = Callable[[JobId], Job | None]


def unfinished(job: Job, find: Find) -> list[JobId]:
    """Return jobs of `after` that this job, which has never started, still waits for."""
    if job.attempt or job.terminal:
        return []
    return [other for other in job.spec.after if not _over(job, find(other))]


def waits_for(job: Job, others: Sequence[JobId], find: Find) -> str:
    """Sentence that names them; "" for none."""
    names = ", ".join(_named(other, find(other)) for other in others)
    return f"waits for {names} to {'end' if job.spec.after_failure else 'succeed'}" if others else ""


def _over(job: Job, other: Job | None) -> bool:
    """Return True if the wait for this job is over."""
    if job.spec.after_failure:
        return other is None or other.terminal
    return other is not None and other.phase is Phase.SUCCEEDED


def _named(id_: JobId, job: Job | None) -> str:
    return id_ if job is None or not job.spec.name else f"{job.spec.name} ({id_})"


class Dependencies:
    """An index from a job to those that wait for it."""

    def __init__(self, store: Store, compare: Callable[[JobId], None] | None = None) -> None:
        """Set up. With `compare`, which requests the comparison of a stage with earlier runs, stages are held
        back until they were compared.
        """
        self._store = store
        self._after: dict[JobId, set[JobId]] = {}
        self._compare = compare

    def note(self, job: Job) -> str:
        """Record the job's dependencies; return the sentence why it may not start now, or ""."""
        if job.attempt or job.terminal:
            return ""
        missing = unfinished(job, self._job)
        for other in missing:
            self._after.setdefault(other, set()).add(job.id)
        if missing:
            return waits_for(job, missing, self._job)
        if self._compare is None or not uncompared(job):
            return ""
        self._compare(job.id)
        return "is being compared with earlier runs: what has not changed is not run again"

    def ended(self, job: JobId) -> set[JobId]:
        """Return the jobs that waited for this ended job; they are no longer kept under it."""
        return self._after.pop(job, set())

    def failure(self, job: Job, now: float) -> JobChange | None:
        """Return the end of a job that depends on one that can no longer succeed."""
        if not job.spec.after or job.spec.after_failure or job.attempt or job.terminal or job.seats:
            return None
        for other in job.spec.after:
            match self._phase(other):
                case Phase.FAILED:
                    how = f"failed: mend it, then `grus retry {other}` goes on from there"
                    return dependency_failed(job, _named(other, self._job(other)), how, now)
                case Phase.STOPPED:
                    how = f"was stopped; `grus retry {other}` goes on from there"
                    return dependency_failed(job, _named(other, self._job(other)), how, now)
                case None:
                    return dependency_failed(job, other, "is no longer on record", now)
                case _:
                    pass
        return None

    def _phase(self, job: JobId) -> Phase | None:
        found = self._job(job)
        return None if found is None else found.phase

    def _job(self, job: JobId) -> Job | None:
        try:
            return self._store.job(job)
        except NotFound:
            return None
