"""Reference store: everything in dictionaries under one lock, gone with the process.

For tests and simulations, and as the yardstick that durable stores are compared with. Keep it so simple that
it is obviously right: every write is done, reported to the listeners and confirmed before the call returns.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from grus.concurrency.listeners import Listeners
from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.errors import GrusError, StoreFailed
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import (
    AUDIT,
    MOST_PROFILES,
    PROFILES,
    REPORTS,
    RESULTS,
    USERS,
    Collection,
    Event,
    NewJob,
    PruneLimits,
    Written,
)
from grus.model.jobs import Job, Phase
from grus.model.metrics_history import MOST_POINTS, stride_of
from grus.store import codec, rules

T = TypeVar("T")


class MemoryStore:
    """In-memory store; see `grus.model.interfaces.Store` for its guarantees (except for durability)."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._listeners: Listeners[Sequence[Written]] = Listeners("the store's writes")
        self._untold: list[Written] = []
        self._telling = False
        self._closed = False
        self._epoch = 0
        self._seq = 0
        self._jobs: dict[JobId, Job] = {}
        self._keys: dict[tuple[UserName, str], JobId] = {}
        self._events: list[Event] = []
        self._values: defaultdict[Collection[Any], dict[tuple[Any, ...], Any]] = defaultdict(dict)
        self._tags: dict[str, Tag] = {}

    # ------------------------------------------------------------------------------------ jobs, written

    def take_over(self) -> int:
        with self._lock:
            self._epoch += 1
            return self._epoch

    def create(
        self, job: Job, event: Event, key: str | None = None, epoch: int | None = None
    ) -> "Future[Job]":
        return self._write(lambda: self._create([NewJob(job, event, key)], epoch)[0])

    def create_all(self, new: Sequence[NewJob], epoch: int | None = None) -> "Future[list[Job]]":
        return self._write(lambda: self._create(new, epoch))

    def replace(
        self,
        job: Job,
        event: Event | None,
        epoch: int | None = None,
        *,
        record: AuditRecord | None = None,
    ) -> "Future[Job]":
        return self._write(self._recorded(lambda: self._replace(job, event, epoch), record))

    def _create(self, new: Sequence[NewJob], epoch: int | None) -> list[Job]:
        """Create the jobs; all are checked before the first is written."""
        rules.check_apart(new)
        stored = [_checked(replace(one.job, version=1), one.event) for one in new]
        rules.check_epoch(epoch, self._epoch)
        there = [self._first(one) for one in new]
        return [
            self._add(replace(one, job=job)) if first is None else first
            for one, job, first in zip(new, stored, there, strict=True)
        ]

    def _first(self, new: NewJob) -> Job | None:
        """Return the job already stored under this user's key."""
        job, key = new.job, new.key
        if key is not None and (job.user, key) in self._keys:
            first = self._jobs[self._keys[job.user, key]]
            rules.check_key(key, first, job)
            return first
        rules.check_new(job.id, job.id in self._jobs)
        return None

    def _add(self, new: NewJob) -> Job:
        if new.key is not None:
            self._keys[new.job.user, new.key] = new.job.id
        return self._put(new.job, new.event)

    def _replace(self, job: Job, event: Event | None, epoch: int | None) -> Job:
        stored = _checked(replace(job, version=job.version + 1), event)
        rules.check_epoch(epoch, self._epoch)
        before = self.job(job.id)
        rules.check_version(job.id, job.version, before.version)
        rules.check_identity(job.id, rules.identity(job) == rules.identity(before))
        rules.check_phase(job.id, before.phase, job.phase)
        return self._put(stored, event)

    def _put(self, job: Job, event: Event | None) -> Job:
        self._jobs[job.id] = job
        if event is not None:
            self._seq += 1
            event = replace(event, seq=self._seq)
            self._events.append(event)
        self._untold.append((job, event))
        return job

    # --------------------------------------------------------------------------------------- jobs, read

    def job(self, job: JobId) -> Job:
        with self._lock:
            if job not in self._jobs:
                raise rules.no_job(job)
            return self._jobs[job]

    def jobs(
        self,
        *,
        phases: Sequence[Phase] | None = None,
        queue: QueueName | None = None,
        user: UserName | None = None,
        limit: int | None = None,
        after: tuple[float, JobId] | None = None,
    ) -> list[Job]:
        with self._lock:
            return rules.matching(self._jobs.values(), phases, queue, user, after)[:limit]

    def count(self) -> dict[Phase, int]:
        with self._lock:
            return dict(Counter(job.phase for job in self._jobs.values()))

    def events(self, *, after: int = 0, job: JobId | None = None, limit: int = 1000) -> list[Event]:
        with self._lock:
            found = [
                event for event in self._events if event.seq > after and (job is None or event.job == job)
            ]
        return found[:limit]

    def subscribe(self, listener: Callable[[Sequence[Written]], None]) -> Callable[[], None]:
        return self._listeners.add(listener)

    # ------------------------------------------------------------------------- queues, users and the rest

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        return self._write(self._recorded(lambda: self._put_values(collection, values), record))

    def _put_values(self, collection: Collection[T], values: Sequence[T]) -> None:
        for value in values:
            codec.of(collection).encode(value)
            if collection.of_user and (user := (_field(value, "user"),)) not in self._values[USERS]:
                raise rules.not_there(USERS, user)
        kept = self._values[collection]
        for value in values:
            key = collection.key_of(value)
            if collection.of_job and _field(value, "job") not in self._jobs:
                continue
            if not (collection.first_stays and key in kept):
                kept[key] = value
        if collection is PROFILES:
            self._drop_oldest_profiles()
        if collection is REPORTS:
            for job in {_field(value, "job") for value in values}:
                self._thin_reports(JobId(job))

    def _drop_oldest_profiles(self) -> None:
        kept = self._values[PROFILES]
        while len(kept) > MOST_PROFILES:
            del kept[min(kept, key=lambda key: (kept[key].updated_at, key))]

    def _thin_reports(self, job: JobId) -> None:
        kept = self._values[REPORTS]
        numbers = [number for of, number in kept if of == job]
        if len(numbers) > MOST_POINTS:
            newest = max(numbers)
            for number in set(numbers) - {newest, *range(0, newest, stride_of(newest))}:
                del kept[job, number]

    def get(self, collection: Collection[T], *key: str) -> T:
        with self._lock:
            if key not in self._values[collection]:
                raise rules.not_there(collection, key)
            value: T = self._values[collection][key]
            return value

    def find(
        self,
        collection: Collection[T],
        *,
        limit: int | None = None,
        after: tuple[object, ...] | None = None,
        **fields: str | None,
    ) -> list[T]:
        with self._lock:
            values = list(self._values[collection].values())
        return rules.listed(collection, values, limit, after, fields)

    def delete(
        self, collection: Collection[Any], key: str, *, record: AuditRecord | None = None
    ) -> "Future[None]":
        def delete() -> None:
            if self._values[collection].pop((key,), None) is None and collection.missing:
                raise rules.not_there(collection, (key,))
            if collection is USERS:
                self._keep(lambda other, value: not (other.of_user and value.user == key))

        return self._write(self._recorded(delete, record))

    def _keep(self, stays: Callable[[Collection[Any], Any], bool]) -> None:
        """Drop all values of collections for which `stays` is false."""
        for collection, values in self._values.items():
            self._values[collection] = {key: one for key, one in values.items() if stays(collection, one)}

    def put_tags(self, tags: Mapping[str, Tag | None]) -> "Future[None]":
        def put() -> None:
            for tag in tags.values():
                if tag is not None:
                    codec.TAG.encode(tag)
            changed = {**self._tags, **tags}
            self._tags = {key: tag for key, tag in changed.items() if tag is not None}

        return self._write(put)

    def tags(self) -> dict[str, Tag]:
        with self._lock:
            return dict(self._tags)

    def without_result(self, limit: int) -> list[Job]:
        with self._lock:
            kept = self._values[RESULTS]
            return [job for job in self._jobs.values() if job.terminal and (job.id,) not in kept][:limit]

    def prune(self, limits: PruneLimits) -> "Future[int]":
        return self._write(lambda: self._prune(limits))

    def _prune(self, limits: PruneLimits) -> int:
        kept = [event for event in self._events if event.at >= limits.events_before]
        ended = [job for job in self._jobs.values() if job.terminal and job.ended_at is not None]
        old = {job.id for job in ended if max(job.submitted_at, job.ended_at or 0.0) < limits.jobs_before}
        gone = old.difference(limits.keep)
        dropped = len(self._events) - len(kept) + len(gone)
        self._events = kept
        self._jobs = {id: job for id, job in self._jobs.items() if id not in gone}
        self._keys = {key: job for key, job in self._keys.items() if job not in gone}
        self._keep(lambda collection, value: not (collection.of_job and value.job in gone))
        results = self._values[RESULTS]
        past = [key for key, one in results.items() if one.ended_at < limits.results_before]
        expired = [key for key in past if results[key].job not in self._jobs]
        for key in expired:
            del results[key]
        return dropped + len(expired)

    def close(self) -> None:
        with self._lock:
            self._closed = True

    # ---------------------------------------------------------------------------------------- helpers

    def _recorded(self, work: Callable[[], T], record: AuditRecord | None) -> Callable[[], T]:
        """Return the same work, which also appends the audit record; both or neither."""
        if record is None:
            return work

        def both() -> T:
            codec.of(AUDIT).encode(record)
            result = work()
            seq = len(self._values[AUDIT]) + 1
            self._values[AUDIT][seq,] = replace(record, seq=seq)
            return result

        return both

    def _write(self, work: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                future.set_exception(StoreFailed("the store is closed"))
                return future
            try:
                result = work()
            except GrusError as error:
                future.set_exception(error)
            else:
                self._tell()
                future.set_result(result)
        return future

    def _tell(self) -> None:
        """Report the writes to the listeners. A listener may write in turn; its writes are reported after the
        present ones.
        """
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                written, self._untold = self._untold, []
                self._listeners.tell(written)
        finally:
            self._telling = False


def _checked(job: Job, event: Event | None) -> Job:
    """Check a job as the durable stores do: values that they could not keep are refused here too."""
    codec.JOB.encode(job)
    if event is not None:
        codec.EVENT.encode(event)
    return job


def _field(value: object, name: str) -> str:
    field: str = getattr(value, name)
    return field
