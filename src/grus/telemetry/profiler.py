"""What runs, recognised from its telemetry: samples and reports in, tags of workers, GPUs and jobs out.

Holds what it needs of each subject and job and forgets what is silent; no clock, no I/O, no thread of its
own. One thread at a time may call it; what it returns is never changed afterwards, so that other threads may
read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.model.jobs import JobType
from grus.model.tags import Kind, Tag
from grus.telemetry.samples import Batch, Subject

EXPIRY = 30.0
"""Seconds after the last sample for which a tag is vouched for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a job besides its telemetry."""

    type: JobType = JobType.TRAIN
    devices: frozenset[DeviceId] = frozenset()
    """The GPUs that it holds now: their power and activity count for it."""
    started_at: float | None = None
    kind: Kind | None = None
    """What earlier runs of its fingerprint were; None if there were none."""
    period: float | None = None
    """Seconds of their rhythm."""
    new_data: bool = False
    """Whether it runs on data that its fingerprint was not seen with."""


class Profiler:
    """All that is watched. Costs some tens of kilobytes a subject (see `grus.patterns.periods.Beat`)."""

    def __init__(self, expiry: float = EXPIRY) -> None:
        self._expiry = expiry
        self._seen: dict[Subject, tuple[float, float]] = {}
        """When each was first and last heard of."""
        self._jobs: dict[JobId, Known] = {}

    def take(self, batch: Batch) -> None:
        """Take in samples. Those older than what was taken before are dropped."""
        for sample in batch.samples:
            first, last = self._seen.get(sample.subject, (sample.at, sample.at))
            self._seen[sample.subject] = (first, max(last, sample.at))

    def hear(
        self, job: JobId, figures: Mapping[str, float], at: float, worker: WorkerId | None = None
    ) -> None:
        """Take in what a worker has reported; `at` is the report's own moment, not that of its reading.

        The same report may be told again and again. `step` and, if there is one, `step_seconds` (what this
        rank itself needed for a step, without waiting for the others) are used.
        """

    def known(self, job: JobId, facts: Known) -> None:
        """Tell what is known of a job that holds GPUs; again whenever it changes. Cheap if it did not."""
        self._jobs[job] = facts

    def forget(self, job: JobId) -> None:
        """The job holds nothing any more: its tags, its workers' and those it gave its GPUs vanish."""
        self._jobs.pop(job, None)
        self._seen = {subject: seen for subject, seen in self._seen.items() if subject.job != job}

    def tags(self, now: float) -> Mapping[Subject, Tag]:
        """Of workers and GPUs that somebody uses. An unchanged tag is equal to the one before but `expires`.

        Subjects that have been silent for longer than the expiry have none.
        """
        return {
            subject: Tag(kind=Kind.UNKNOWN, at=first, expires=last + self._expiry, note="not looked at yet")
            for subject, (first, last) in self._seen.items()
            if now < last + self._expiry
        }

    def jobs(self, now: float) -> Mapping[JobId, Tag]:
        """Of jobs, out of those of their workers and GPUs and of their own reports."""
        found = {}
        for subject, tag in self.tags(now).items():
            if subject.job is not None:
                found[subject.job] = tag
        return found
