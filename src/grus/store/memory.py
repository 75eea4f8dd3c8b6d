"""Reference store: everything in dictionaries under one lock, gone with the process.

For tests and simulations, and as the yardstick that durable stores are compared with. Keep it so simple that
it is obviously right: every write is done, reported to the listeners and confirmed before the call returns.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

from grus.concurrency.listeners import Listeners
from grus.model.activity_labels import Tag
from grus.model.audit import MOST_AUDIT_RECORDS, AuditRecord
from grus.model.errors import GrusError, NotFound, StoreFailed
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import MOST_PROFILES, Event, NewJob, Prediction, Token, User, Written
from grus.model.jobs import Job, Phase
from grus.model.metrics_history import MOST_POINTS, Reported, stride_of
from grus.model.nodes import Drain
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.model.results import Result
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
        self._queues: dict[QueueName, Queue] = {}
        self._users: dict[UserName, User] = {}
        self._tokens: dict[str, Token] = {}
        self._cordoned: set[NodeId] = set()
        self._drains: dict[NodeId, Drain] = {}
        self._audit: list[AuditRecord] = []
        self._predictions: dict[JobId, Prediction] = {}
        self._profiles: dict[str, JobProfile] = {}
        self._reports: dict[JobId, dict[int, Reported]] = {}
        self._tags: dict[str, Tag] = {}
        self._results: dict[JobId, Result] = {}

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
            found = [
                job
                for job in self._jobs.values()
                if (phases is None or job.phase in phases)
                and (queue is None or job.spec.queue == queue)
                and (user is None or job.user == user)
                and (after is None or (job.submitted_at, job.id) < after)
            ]
        found.sort(key=lambda job: (job.submitted_at, job.id), reverse=True)
        return found[:limit]

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

    def queues(self) -> list[Queue]:
        with self._lock:
            return [self._queues[name] for name in sorted(self._queues)]

    def put_queue(self, queue: Queue, *, record: AuditRecord | None = None) -> "Future[None]":
        def put() -> None:
            codec.QUEUE.encode(queue)
            self._queues[queue.name] = queue

        return self._write(self._recorded(put, record))

    def delete_queue(self, name: QueueName, *, record: AuditRecord | None = None) -> "Future[None]":
        def delete() -> None:
            if self._queues.pop(name, None) is None:
                raise NotFound(f"there is no queue {name}")

        return self._write(self._recorded(delete, record))

    def users(self) -> list[User]:
        with self._lock:
            return [self._users[name] for name in sorted(self._users)]

    def put_user(self, user: User, *, record: AuditRecord | None = None) -> "Future[None]":
        def put() -> None:
            codec.USER.encode(user)
            self._users[user.name] = user

        return self._write(self._recorded(put, record))

    def delete_user(self, name: UserName, *, record: AuditRecord | None = None) -> "Future[None]":
        def delete() -> None:
            if self._users.pop(name, None) is None:
                raise NotFound(f"there is no user {name}")
            self._tokens = {digest: token for digest, token in self._tokens.items() if token.user != name}

        return self._write(self._recorded(delete, record))

    def tokens(self) -> list[Token]:
        with self._lock:
            return [self._tokens[digest] for digest in sorted(self._tokens)]

    def put_token(self, token: Token, *, record: AuditRecord | None = None) -> "Future[None]":
        def put() -> None:
            codec.TOKEN.encode(token)
            if token.user not in self._users:
                raise NotFound(f"there is no user {token.user}")
            self._tokens[token.digest] = token

        return self._write(self._recorded(put, record))

    def delete_token(self, digest: str, *, record: AuditRecord | None = None) -> "Future[None]":
        def delete() -> None:
            if self._tokens.pop(digest, None) is None:
                raise NotFound("there is no such token")

        return self._write(self._recorded(delete, record))

    def audit(
        self, *, actor: UserName | None = None, target: str = "", before: int | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        with self._lock:
            found = [
                record
                for record in reversed(self._audit)
                if (actor is None or record.actor == actor)
                and (not target or record.target == target)
                and (before is None or record.seq < before)
            ]
        return found[: max(0, min(limit, MOST_AUDIT_RECORDS))]

    def cordoned(self) -> frozenset[NodeId]:
        with self._lock:
            return frozenset(self._cordoned)

    def drains(self) -> dict[NodeId, Drain]:
        with self._lock:
            return dict(self._drains)

    def set_cordoned(
        self,
        node: NodeId,
        cordoned: bool,
        *,
        drain: Drain | None = None,
        record: AuditRecord | None = None,
    ) -> "Future[None]":
        def put() -> None:
            if drain is not None:
                codec.DRAIN.encode(drain)
            self._drains.pop(node, None)
            self._cordoned.discard(node)
            if cordoned:
                self._cordoned.add(node)
                self._drains |= {} if drain is None else {node: drain}

        return self._write(self._recorded(put, record))

    def put_predictions(self, predictions: Sequence[Prediction]) -> "Future[None]":
        def put() -> None:
            for one in predictions:
                codec.PREDICTION.encode(one)
            for one in predictions:
                if one.job in self._jobs:
                    self._predictions.setdefault(one.job, one)

        return self._write(put)

    def predictions(self, limit: int) -> list[Prediction]:
        with self._lock:
            found = sorted(self._predictions.values(), key=lambda one: (one.at, one.job), reverse=True)
        return found[:limit]

    def put_profile(self, profile: JobProfile) -> "Future[None]":
        def put() -> None:
            codec.PROFILE.encode(profile)
            self._profiles[profile.fingerprint] = profile
            if len(self._profiles) > MOST_PROFILES:
                del self._profiles[min(self._profiles, key=lambda one: (self._profiles[one].updated_at, one))]

        return self._write(put)

    def profiles(self) -> list[JobProfile]:
        with self._lock:
            return [self._profiles[fingerprint] for fingerprint in sorted(self._profiles)]

    def put_reports(self, reports: Sequence[Reported]) -> "Future[None]":
        def put() -> None:
            for one in reports:
                codec.REPORTED.encode(one)
            for one in reports:
                if one.job in self._jobs:
                    self._reports.setdefault(one.job, {}).setdefault(one.number, one)
            for job in {one.job for one in reports} & self._reports.keys():
                kept = self._reports[job]
                if len(kept) > MOST_POINTS:
                    newest = max(kept)
                    stay = {newest, *range(0, newest, stride_of(newest))}
                    self._reports[job] = {number: one for number, one in kept.items() if number in stay}

        return self._write(put)

    def reports(self, job: JobId) -> list[Reported]:
        with self._lock:
            kept = self._reports.get(job, {})
            return [kept[number] for number in sorted(kept)]

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

    def put_result(self, result: Result) -> "Future[None]":
        def put() -> None:
            codec.RESULT.encode(result)
            self._results[result.job] = result

        return self._write(put)

    def result(self, job: JobId) -> Result:
        with self._lock:
            if job not in self._results:
                raise rules.no_result(job)
            return self._results[job]

    def results(
        self,
        *,
        user: UserName | None = None,
        queue: QueueName | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: tuple[float, JobId] | None = None,
    ) -> list[Result]:
        with self._lock:
            found = [
                one
                for one in self._results.values()
                if (user is None or one.user == user)
                and (queue is None or one.queue == queue)
                and (name is None or one.name == name)
                and (after is None or (one.ended_at, one.job) < after)
            ]
        found.sort(key=lambda one: (one.ended_at, one.job), reverse=True)
        return found[:limit]

    def result_by_key(self, user: UserName, key: str) -> Result | None:
        found = [one for one in self.results(user=user) if one.key == key and one.phase is Phase.SUCCEEDED]
        return found[0] if key and found else None

    def without_result(self, limit: int) -> list[Job]:
        with self._lock:
            return [job for job in self._jobs.values() if job.terminal and job.id not in self._results][
                :limit
            ]

    def prune(
        self,
        *,
        events_before: float,
        jobs_before: float,
        results_before: float = 0.0,
        keep: Collection[JobId] = (),
    ) -> "Future[int]":
        return self._write(lambda: self._prune(events_before, jobs_before, results_before, frozenset(keep)))

    def _prune(
        self, events_before: float, jobs_before: float, results_before: float, keep: frozenset[JobId]
    ) -> int:
        kept = [event for event in self._events if event.at >= events_before]
        gone = {
            job.id
            for job in self._jobs.values()
            if job.terminal and job.ended_at is not None and max(job.submitted_at, job.ended_at) < jobs_before
        } - keep
        dropped = len(self._events) - len(kept) + len(gone)
        self._events = kept
        self._jobs = {id: job for id, job in self._jobs.items() if id not in gone}
        self._keys = {key: job for key, job in self._keys.items() if job not in gone}
        self._predictions = {job: one for job, one in self._predictions.items() if job not in gone}
        self._reports = {job: kept for job, kept in self._reports.items() if job not in gone}
        old = {id_ for id_, one in self._results.items() if one.ended_at < results_before} - self._jobs.keys()
        self._results = {job: one for job, one in self._results.items() if job not in old}
        return dropped + len(old)

    def close(self) -> None:
        with self._lock:
            self._closed = True

    # ---------------------------------------------------------------------------------------- helpers

    def _recorded(self, work: Callable[[], T], record: AuditRecord | None) -> Callable[[], T]:
        """Return the same work, which also appends the audit record; both or neither."""
        if record is None:
            return work

        def both() -> T:
            codec.AUDIT.encode(record)
            result = work()
            self._audit.append(replace(record, seq=len(self._audit) + 1))
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
