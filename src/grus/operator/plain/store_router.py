"""Combined store: GpuJobs in their own store, plain pods in the pods themselves. Routes by the job's id.

Queues are those that were accepted, so that an invalid one has no effect on others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from grus.concurrency.listeners import Listeners
from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import QUEUES, Collection, Event, NewJob, Store, Written
from grus.model.jobs import Job, Phase
from grus.model.queues import Queue
from grus.operator.plain.pod_binding import PlainPods
from grus.operator.plain.pods_as_jobs import is_plain_id
from grus.store import rules

T = TypeVar("T")


class StoreWithPods:
    """See `grus.model.interfaces.Store`. Plain pods have no events in the log and no predictions."""

    def __init__(self, store: Store, pods: PlainPods, queues: Callable[[], list[Queue]]) -> None:
        self._store = store
        self._pods = pods
        self._accepted = queues
        self._listeners: Listeners[Sequence[Written]] = Listeners("writes of plain pods")
        pods.tell = self._listeners.tell

    def take_over(self) -> int:
        self._pods.epoch = self._store.take_over()
        return self._pods.epoch

    def create(
        self, job: Job, event: Event, key: str | None = None, epoch: int | None = None
    ) -> "Future[Job]":
        return self._store.create(job, event, key, epoch)

    def create_all(self, new: Sequence[NewJob], epoch: int | None = None) -> "Future[list[Job]]":
        return self._store.create_all(new, epoch)

    def replace(
        self,
        job: Job,
        event: Event | None,
        epoch: int | None = None,
        *,
        record: AuditRecord | None = None,
    ) -> "Future[Job]":
        if is_plain_id(job.id):  # changes of pods are in the cluster's own audit log
            return self._pods.replace(job, event, epoch)
        return self._store.replace(job, event, epoch, record=record)

    def job(self, job: JobId) -> Job:
        return self._pods.job(job) if is_plain_id(job) else self._store.job(job)

    def jobs(
        self,
        *,
        phases: Sequence[Phase] | None = None,
        queue: QueueName | None = None,
        user: UserName | None = None,
        limit: int | None = None,
        after: tuple[float, JobId] | None = None,
    ) -> list[Job]:
        stored = self._store.jobs(phases=phases, queue=queue, user=user, limit=limit, after=after)
        plain = [
            job
            for job in self._pods.jobs()
            if (phases is None or job.phase in phases)
            and (queue is None or job.spec.queue == queue)
            and (user is None or job.user == user)
            and (after is None or (job.submitted_at, job.id) < after)
        ]
        if not plain:
            return stored
        both = sorted([*stored, *plain], key=lambda job: (job.submitted_at, job.id), reverse=True)
        return both[:limit]

    def count(self) -> dict[Phase, int]:
        found = dict(self._store.count())
        for job in self._pods.jobs():
            found[job.phase] = found.get(job.phase, 0) + 1
        return found

    def events(self, *, after: int = 0, job: JobId | None = None, limit: int = 1000) -> list[Event]:
        return self._store.events(after=after, job=job, limit=limit)

    def subscribe(self, listener: Callable[[Sequence[Written]], None]) -> Callable[[], None]:
        ways_out = (self._store.subscribe(listener), self._listeners.add(listener))

        def leave() -> None:
            for way_out in ways_out:
                way_out()

        return leave

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        if collection.of_job:
            values = tuple(one for one in values if not is_plain_id(getattr(one, "job")))  # noqa: B009 - see `of_job`
        return self._store.put(collection, *values, record=record)

    def get(self, collection: Collection[T], *key: str) -> T:
        return self._store.get(collection, *key)

    def find(
        self,
        collection: Collection[T],
        *,
        limit: int | None = None,
        after: tuple[object, ...] | None = None,
        **fields: str | None,
    ) -> list[T]:
        if collection is QUEUES:
            return rules.listed(collection, cast("list[T]", self._accepted()), limit, after, fields)
        return self._store.find(collection, limit=limit, after=after, **fields)

    def delete(
        self, collection: Collection[Any], key: str, *, record: AuditRecord | None = None
    ) -> "Future[None]":
        return self._store.delete(collection, key, record=record)

    def put_tags(self, tags: Mapping[str, Tag | None]) -> "Future[None]":
        return self._store.put_tags(tags)

    def tags(self) -> dict[str, Tag]:
        return self._store.tags()

    def without_result(self, limit: int) -> list[Job]:
        return self._store.without_result(limit)

    def prune(
        self,
        *,
        events_before: float,
        jobs_before: float,
        results_before: float = 0.0,
        keep: Iterable[JobId] = (),
    ) -> "Future[int]":
        return self._store.prune(
            events_before=events_before, jobs_before=jobs_before, results_before=results_before, keep=keep
        )

    def close(self) -> None:
        self._pods.close()
        self._store.close()
