"""Combined store: GpuJobs in their own store, plain pods in the pods themselves. Routes by the job's id.

Queues are those that were accepted, so that an invalid one has no effect on others.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

from grus.concurrency.listeners import Listeners
from grus.model.activity_labels import Tag
from grus.model.audit import AuditRecord
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import Event, NewJob, Prediction, Store, Token, User, Written
from grus.model.jobs import Job, Phase
from grus.model.metrics_history import Reported
from grus.model.nodes import Drain
from grus.model.profiles import JobProfile
from grus.model.queues import Queue
from grus.model.results import Result
from grus.operator.plain.pod_binding import PlainPods
from grus.operator.plain.pods_as_jobs import is_plain_id


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

    def queues(self) -> list[Queue]:
        return self._accepted()

    def put_queue(self, queue: Queue, *, record: AuditRecord | None = None) -> "Future[None]":
        return self._store.put_queue(queue, record=record)

    def delete_queue(self, name: QueueName, *, record: AuditRecord | None = None) -> "Future[None]":
        return self._store.delete_queue(name, record=record)

    def users(self) -> list[User]:
        return self._store.users()

    def put_user(self, user: User, *, record: AuditRecord | None = None) -> "Future[None]":
        return self._store.put_user(user, record=record)

    def delete_user(self, name: UserName, *, record: AuditRecord | None = None) -> "Future[None]":
        return self._store.delete_user(name, record=record)

    def tokens(self) -> list[Token]:
        return self._store.tokens()

    def put_token(self, token: Token, *, record: AuditRecord | None = None) -> "Future[None]":
        return self._store.put_token(token, record=record)

    def delete_token(self, digest: str, *, record: AuditRecord | None = None) -> "Future[None]":
        return self._store.delete_token(digest, record=record)

    def audit(
        self, *, actor: UserName | None = None, target: str = "", before: int | None = None, limit: int = 100
    ) -> list[AuditRecord]:
        return self._store.audit(actor=actor, target=target, before=before, limit=limit)

    def cordoned(self) -> frozenset[NodeId]:
        return self._store.cordoned()

    def drains(self) -> dict[NodeId, Drain]:
        return self._store.drains()

    def set_cordoned(
        self,
        node: NodeId,
        cordoned: bool,
        *,
        drain: Drain | None = None,
        record: AuditRecord | None = None,
    ) -> "Future[None]":
        return self._store.set_cordoned(node, cordoned, drain=drain, record=record)

    def put_predictions(self, predictions: Sequence[Prediction]) -> "Future[None]":
        return self._store.put_predictions([one for one in predictions if not is_plain_id(one.job)])

    def predictions(self, limit: int) -> list[Prediction]:
        return self._store.predictions(limit)

    def put_profile(self, profile: JobProfile) -> "Future[None]":
        return self._store.put_profile(profile)

    def profiles(self) -> list[JobProfile]:
        return self._store.profiles()

    def put_reports(self, reports: Sequence[Reported]) -> "Future[None]":
        return self._store.put_reports([one for one in reports if not is_plain_id(one.job)])

    def reports(self, job: JobId) -> list[Reported]:
        return self._store.reports(job)

    def put_tags(self, tags: Mapping[str, Tag | None]) -> "Future[None]":
        return self._store.put_tags(tags)

    def tags(self) -> dict[str, Tag]:
        return self._store.tags()

    def put_result(self, result: Result) -> "Future[None]":
        return self._store.put_result(result)

    def result(self, job: JobId) -> Result:
        return self._store.result(job)

    def results(
        self,
        *,
        user: UserName | None = None,
        queue: QueueName | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: tuple[float, JobId] | None = None,
    ) -> list[Result]:
        return self._store.results(user=user, queue=queue, name=name, limit=limit, after=after)

    def result_by_key(self, user: UserName, key: str) -> Result | None:
        return self._store.result_by_key(user, key)

    def without_result(self, limit: int) -> list[Job]:
        return self._store.without_result(limit)

    def prune(
        self,
        *,
        events_before: float,
        jobs_before: float,
        results_before: float = 0.0,
        keep: Collection[JobId] = (),
    ) -> "Future[int]":
        return self._store.prune(
            events_before=events_before, jobs_before=jobs_before, results_before=results_before, keep=keep
        )

    def close(self) -> None:
        self._pods.close()
        self._store.close()
