"""Who comes after whom: which waiting jobs are held back until others have succeeded (or, asked for, ended).

Kept for jobs that have never started; once a job has run, what it came after no longer matters.
"""

from collections.abc import Callable

from grus.controlplane.lifecycle import Change, dependency_failed
from grus.controlplane.skipping import uncompared
from grus.model.errors import NotFound
from grus.model.identifiers import JobId
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.ports import Store


class Dependencies:
    """An index from a job to those that wait for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: dict[JobId, set[JobId]] = {}
        self._compare: Callable[[JobId], None] | None = None

    def use_comparison(self, compare: Callable[[JobId], None]) -> None:
        """Hold stages back until they were compared with earlier runs; `compare` asks for that, no more."""
        self._compare = compare

    def note(self, job: Job) -> str:
        """Remember what the job waits for; the sentence why it may not start now, or nothing."""
        if job.attempt or job.terminal:
            return ""
        missing = [other for other in job.spec.after if not self._over(job, other)]
        for other in missing:
            self._after.setdefault(other, set()).add(job.id)
        if missing:
            names = ", ".join(self._named(other) for other in missing)
            return f"waits for {names} to {'end' if job.spec.after_failure else 'succeed'}"
        if self._compare is None or not uncompared(job):
            return ""
        self._compare(job.id)
        return "is being compared with earlier runs: what has not changed is not run again"

    def _over(self, job: Job, other: JobId) -> bool:
        """Whether this one needs no more waiting for."""
        phase = self._phase(other)
        return phase is None or phase in TERMINAL if job.spec.after_failure else phase is Phase.SUCCEEDED

    def ended(self, job: JobId) -> set[JobId]:
        """Who waited for this job, which has ended; they are no longer kept under it."""
        return self._after.pop(job, set())

    def failure(self, job: Job, now: float) -> Change | None:
        """The end of a job of whose predecessors one can no longer succeed."""
        if not job.spec.after or job.spec.after_failure or job.attempt or job.terminal or job.seats:
            return None
        for other in job.spec.after:
            match self._phase(other):
                case Phase.FAILED:
                    how = f"failed: mend it, then `grus retry {other}` goes on from there"
                    return dependency_failed(job, self._named(other), how, now)
                case Phase.STOPPED:
                    how = f"was stopped; `grus retry {other}` goes on from there"
                    return dependency_failed(job, self._named(other), how, now)
                case None:
                    return dependency_failed(job, other, "is no longer on record", now)
                case _:
                    pass
        return None

    def _phase(self, job: JobId) -> Phase | None:
        found = self._job(job)
        return None if found is None else found.phase

    def _named(self, job: JobId) -> str:
        found = self._job(job)
        return job if found is None or not found.spec.name else f"{found.spec.name} ({job})"

    def _job(self, job: JobId) -> Job | None:
        try:
            return self._store.job(job)
        except NotFound:
            return None
