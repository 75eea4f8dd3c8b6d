"""Combined store: GpuJobs in their own store, plain pods in the pods themselves. Routes by the job's id.

Queues are those that were accepted, so that an invalid one has no effect on others.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar, cast

from grus.concurrency.listeners import Listeners
from grus.model.audit import AuditRecord
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import QUEUES, Collection, Event, Store, Written
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
        # As the store does it: these concern no plain pod.
        self.create, self.create_all, self.events = store.create, store.create_all, store.events
        self.get, self.delete, self.prune = store.get, store.delete, store.prune
        self.tags, self.put_tags, self.without_result = store.tags, store.put_tags, store.without_result
        self._pods = pods
        self._accepted = queues
        self._listeners: Listeners[Sequence[Written]] = Listeners("writes of plain pods")
        pods.tell = self._listeners.tell

    def take_over(self) -> int:
        self._pods.epoch = self._store.take_over()
        return self._pods.epoch

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
        plain = rules.matching(self._pods.jobs(), phases, queue, user, after)
        if not plain:
            return stored
        both = sorted([*stored, *plain], key=lambda job: (job.submitted_at, job.id), reverse=True)
        return both[:limit]

    def count(self) -> dict[Phase, int]:
        found = dict(self._store.count())
        for job in self._pods.jobs():
            found[job.phase] = found.get(job.phase, 0) + 1
        return found

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

    def close(self) -> None:
        self._pods.close()
        self._store.close()
