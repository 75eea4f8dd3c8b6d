"""Telemetry for users: the newest values, and the history of one GPU, job, worker, queue or the pool.

Every user may see the pool's GPUs; each user sees only the jobs and queues that `authorization` allows, and
others appear not to exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from grus.controlplane.monitoring.telemetry_collector import Watching
from grus.controlplane.visibility import JobVisibility
from grus.model.activity_labels import Tag
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, QueueName, WorkerId
from grus.model.interfaces import User
from grus.telemetry.samples import Fault, LostMeasure, Measure, Sample, Subject
from grus.telemetry.tsdb import POOL, Series, of_queue

SHARES = frozenset({Measure.UTILISATION, Measure.ACTIVE, Measure.MEMORY_TIME, Measure.TEMPERATURE})
"""Measures that are averaged over several subjects; others are summed."""


class Whose(StrEnum):
    """Subject of a time series."""

    GPU = "gpu"
    JOB = "job"
    WORKER = "worker"
    QUEUE = "queue"
    NODE = "node"
    POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Newest metrics that this user sees."""

    at: float
    samples: tuple[Sample, ...]
    tags: Mapping[Subject, Tag]
    queues: Mapping[JobId, QueueName]
    """Queues of the jobs whose workers are among the samples."""
    pool: Mapping[Measure, float]
    """GPUs of the pool: allocated, requested and present."""
    lost: tuple[LostMeasure, ...]
    faults: tuple[Fault, ...]
    every: float
    """Seconds between two samples."""
    size: int
    """Bytes on disk of the recorded data."""
    trouble: str


class Readings:
    """One a server, for any thread."""

    def __init__(self, watching: Watching, sight: JobVisibility, clock: Callable[[], float]) -> None:
        self._watching = watching
        self._sight = sight
        self._clock = clock

    def now(self, user: User) -> Figures:
        now = self._clock()
        newest = self._watching.newest(now)
        seen = [one for one in sorted(newest, key=_order) if self._sees(user, one)]
        jobs = {one.job for one in seen if one.job is not None}
        owners = {job: owner for job in jobs if (owner := self._sight.owner(job)) is not None}
        tags = self._watching.tags(now)
        return Figures(
            at=now,
            samples=tuple(newest[one] for one in seen),
            tags={one: tag for one, tag in tags.items() if self._sees(user, one)},
            queues={job: owner.queue for job, owner in owners.items()},
            pool=self._watching.demand(now)[POOL],
            lost=self._watching.lost,
            faults=tuple(self._watching.faults.values()),
            every=self._watching.every,
            size=self._watching.recorder.size,
            trouble=self._watching.recorder.trouble,
        )

    def of_gpus(self) -> dict[Subject, Sample]:
        """Return the newest metrics of GPUs and of their instances, which every user may see."""
        return self._watching.newest(self._clock(), gpus_only=True)

    def of_workers(self, user: User, job: JobId) -> dict[WorkerId, Sample]:
        """Return the newest metrics of a job's workers; none for a job that this user may not see."""
        if not self._sight.job(user, job):
            return {}
        newest = self._watching.newest(self._clock(), job=job)
        return {one.worker: sample for one, sample in newest.items() if one.worker is not None}

    @property
    def faults(self) -> Mapping[Subject, Fault]:
        """Return the last error that each GPU has reported since the server started."""
        return self._watching.faults

    def _sees(self, user: User, subject: Subject) -> bool:
        return subject.job is None or self._sight.job(user, subject.job)

    def series(
        self,
        user: User,
        whose: Whose,
        name: str,
        measure: Measure,
        *,
        back: float,
        until: float | None = None,
        step: float | None = None,
        highest: bool = False,
    ) -> Series:
        """Return the series from `back` seconds before `until` (now). Raises NotFound if it does not exist
        for this user.
        """
        end = self._clock() if until is None else until
        subjects = self._subjects(user, whose, name)
        if not subjects:
            raise NotFound(f"nothing is recorded of {whose.value} {name}".rstrip())
        found: list[Series] = []
        for one in subjects:
            found.append(self._watching.recorder.read(one, measure, end - back, end, step, highest=highest))
            step = found[0].step  # the same grid for all of them
        return combined(found, measure) if len(found) > 1 else found[0]

    def of_jobs(
        self, jobs: Mapping[JobId, tuple[float, float]], measure: Measure, step: float | None = None
    ) -> dict[JobId, Series]:
        """Return the series of each of these jobs, which the caller may see, all its workers together,
        between two moments.

        In steps, or at the finest resolution that is still available for the whole time; a job without
        recorded samples is missing.
        """
        workers: dict[JobId, list[Subject]] = {}
        for one in self._watching.recorder.subjects():
            if one.job is not None and one.job in jobs and one.worker is not None:
                workers.setdefault(one.job, []).append(one)
        found: dict[JobId, Series] = {}
        for job, subjects in workers.items():
            series = self._together(sorted(subjects, key=_order), measure, *jobs[job], step)
            if not np.isnan(series.values).all():
                found[job] = series
        return found

    def of_pool(self, measure: Measure, since: float, until: float, step: float | None = None) -> Series:
        return self._watching.recorder.read(POOL, measure, since, until, step)

    def _together(
        self, subjects: list[Subject], measure: Measure, since: float, until: float, step: float | None
    ) -> Series:
        found: list[Series] = []
        for one in subjects:
            found.append(self._watching.recorder.read(one, measure, since, until, step))
            step = found[0].step  # the same grid for all of them
        return combined(found, measure) if len(found) > 1 else found[0]

    def finest(self, since: float) -> float:
        """Return the finest step, in seconds, in which any data since then is still available."""
        return self._watching.recorder.finest(since)

    def recorded(self, user: User, whose: Whose, name: str) -> bool:
        """Return whether a series exists. Raises NotFound, as `series` does, for subjects that the user may
        not see.
        """
        return bool(self._subjects(user, whose, name))

    def _subjects(self, user: User, whose: Whose, name: str) -> list[Subject]:
        if whose is Whose.POOL:
            return [POOL]
        if whose is Whose.QUEUE:
            if name not in self._sight.queues(user):
                raise NotFound(f"there is no queue {name}")
            return [of_queue(QueueName(name))]
        if whose is Whose.JOB and not self._sight.job(user, JobId(name)):
            raise NotFound(f"there is no job {name}")
        known = self._watching.recorder.subjects()
        found = [one for one in known if _is(one, whose, name) and self._sees(user, one)]
        return sorted(found, key=_order)


def _is(subject: Subject, whose: Whose, name: str) -> bool:
    if whose is Whose.GPU:
        device, _, instance = name.partition("#")
        return subject.device == device and subject.instance == instance
    if whose is Whose.NODE:
        return subject == Subject(subject.node) and subject.node == name and not name.startswith("@")
    return name == (subject.job if whose is Whose.JOB else subject.worker)


def _order(subject: Subject) -> tuple[str, ...]:
    return tuple(part or "" for part in subject)


def combined(found: list[Series], measure: Measure) -> Series:
    """Combine several series: means of shares, sums of amounts, over those that are known at each moment."""
    first = found[0]
    values = np.stack([one.values for one in found])
    there = ~np.isnan(values)
    sums, count = np.where(there, values, 0.0).sum(axis=0), there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = sums / count if measure in SHARES else np.where(count, sums, np.nan)
    return Series(first.start, first.step, np.asarray(whole, dtype=np.float64))
