"""Store of a Kubernetes cluster: jobs are GpuJob objects, queues GpuQueue objects, cordons are on the nodes.

A local SQLite file is a copy of the jobs to read from, the log of events, and the place of what has no object
(users, tokens, predictions, profiles, results, tags). A write is checked against the copy, made durable in
the cluster, written to the copy, reported to the listeners, and only then confirmed. Writes by others arrive
through a watch and are reported alike. If the copy is lost, jobs and their last events are restored from the
cluster. A job whose object is deleted stays in the copy as history until it is pruned; if it had not ended,
it is stopped.
"""

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.informer import OnChange, Reflector
from grus.kubernetes.client.resource_kinds import GPU_JOBS
from grus.model.audit import AuditRecord
from grus.model.errors import Conflict, StoreFailed
from grus.model.identifiers import JobId
from grus.model.interfaces import CORDONS, QUEUES, Collection, Event, NewJob, PruneLimits
from grus.model.jobs import TERMINAL, Job, Phase
from grus.store import mirror, rules, sql_tables
from grus.store.kubernetes import job_status_codec
from grus.store.kubernetes.bulk_updates import Sweeper
from grus.store.kubernetes.cordons import Cordons
from grus.store.kubernetes.events_writer import Announcer
from grus.store.kubernetes.lease_epochs import next_epoch
from grus.store.kubernetes.queues import Queues
from grus.store.kubernetes.status_writer import JobLocations, ObjectFactory, Recorder, asking
from grus.store.kubernetes.watch_buffer import News, ObjectUpdates
from grus.store.mirror import MirroredJob
from grus.store.sqlite import SqliteStore, unless_refused
from grus.store.write_batch import JobWrite, WriteOutcome

T = TypeVar("T")

DELETED = "Its GpuJob was deleted."
SYNC = 120.0
"""Timeout in seconds of the first list of all objects."""
AGAIN = 0.5
"""Seconds until a copy that failed to take news tries again."""
WRITERS = 8
"""Maximum number of writes under way."""
LIVE = tuple(phase for phase in Phase if phase not in TERMINAL)


class Leading(Protocol):
    """Interface of a leader election, as the store needs it."""

    @property
    def epoch(self) -> int: ...

    def valid(self) -> bool: ...


class Objects(Protocol):
    """Collection whose values are objects of the cluster."""

    def all(self) -> list[Any]: ...

    def put(self, value: Any, /) -> None: ...

    def delete(self, key: str, /) -> None: ...


class KubernetesStore(SqliteStore):
    """Kubernetes store; see `grus.model.interfaces.Store` for its guarantees. A write is durable once the API
    server has answered.
    """

    def __init__(
        self,
        api: Api,
        *,
        history: Path | None = None,
        namespace: str = "",
        place: Callable[[Job], str] | None = None,
        leadership: Leading | None = None,
        finalizers: Sequence[str] = (),
        nodes: Reflector | None = None,
        writers: int = WRITERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set up. `create` makes objects in the namespace that `place` returns, or in `namespace`; jobs of
        all namespaces are seen.

        Without `history` the copy is a temporary file. `finalizers` are put on objects made here. `nodes` is
        an existing watch of the nodes, which its owner closes.
        """
        self._api = api
        self._clock = clock
        self._leadership = leadership
        self._namespace = namespace or api.namespace
        self._epoch = 0
        self._closing = threading.Event()
        self._temporary = tempfile.TemporaryDirectory(prefix="grus-store-") if history is None else None
        path = history or Path(self._temporary.name if self._temporary else "", "copy.db")
        self._news = News(self._wake)
        self._pool = ThreadPoolExecutor(writers, thread_name_prefix="grus-store")
        self._recorder = Recorder(
            api,
            JobLocations(self._news.home, self._seen, self._note),
            ObjectFactory(place or (lambda _: self._namespace), tuple(finalizers)),
            pool=self._pool,
            epoch=lambda: self._epoch,
            valid=lambda: leadership is None or leadership.valid(),
            lost=lambda: leadership is not None and bool(self._epoch) and leadership.epoch != self._epoch,
            now=clock,
        )
        super().__init__(path, lasting=history is not None, elsewhere=self._record)
        self._announcer = Announcer(api)
        self._watchers: list[OnChange] = []
        self._queue_watchers: list[Callable[[], None]] = []
        self._sweeper = Sweeper(api, self._pool, self._recorder, self._note)
        self.objects = Reflector(api, GPU_JOBS, on_change=self._changed)
        """GpuJobs as they are in the cluster, also for other readers."""
        self._queues = Queues(api, self._queues_changed)
        self._cordons = Cordons(api, nodes)
        self._in_cluster: Mapping[Collection[Any], Objects] = {QUEUES: self._queues, CORDONS: self._cordons}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Synchronize the copy with the cluster."""
        with asking():
            if not self._api.serves(GPU_JOBS):
                raise StoreFailed(f"the cluster {self._api.server} has no GpuJobs: install Grus there first")
        for reflector in (self.objects, self._queues.reflector, self._cordons.nodes):
            if not reflector.wait_synced(SYNC):
                raise StoreFailed(f"the API server {self._api.server} did not list its objects; see its log")
        self._take_news().result()
        known = [job.id for job in self.jobs(phases=LIVE)]
        gone = self._news.homeless(known)
        self._writer.do(lambda connection: mirror.end(connection, gone, self._clock(), DELETED)).result()

    # ------------------------------------------------------------------------------------ jobs, written

    def take_over(self) -> int:
        """Take over: touch every live job, so that a late write of an earlier control plane meets a newer
        state.
        """
        return self._writer.do(self._take_over).result()

    def create(
        self, job: Job, event: Event, key: str | None = None, epoch: int | None = None
    ) -> "Future[Job]":
        hashed = None if key is None else job_status_codec.key_hash(job.user, key)
        first = replace(job, version=1)
        return self._write(
            lambda: JobWrite(job=first, event=event, new=True, key=hashed, epoch=epoch, key_said=key or "")
        )

    def create_all(self, new: Sequence[NewJob], epoch: int | None = None) -> "Future[list[Job]]":
        """Create one job: each is an object of its own, and the API server changes one object at a time."""

        def give() -> "Future[list[Job]]":
            if len(new) > 1:
                raise Conflict(
                    f"a cluster cannot store {len(new)} jobs as one; submit them one by one, "
                    "or all with `grus --kubernetes submit`, which does that"
                )
            done: Future[list[Job]] = Future()
            done.set_result([self.create(one.job, one.event, one.key, epoch).result() for one in new])
            return done

        return unless_refused(give)

    def admit(self, job: Job, event: Event, item: Object) -> "Future[Job]":
        """Create the job as `create` does, but record it in this object, which a user has made."""
        self._recorder.given[job.id] = item
        first = replace(job, version=1)
        future = self._write(lambda: JobWrite(job=first, event=event, new=True))
        future.add_done_callback(lambda _: self._recorder.given.pop(job.id, None))
        return future

    def home(self, job: JobId) -> Home:
        """Return the object that records a job. Raises NotFound, also for a job whose object is gone."""
        home = self._news.home(job)
        if home is None:
            raise rules.no_job(job)
        return home

    def makes(self, namespace: str, name: str) -> bool:
        """Return whether `create` is making this object just now, which has no record yet."""
        return self._recorder.makes(namespace, name)

    def watch(self, listener: OnChange) -> None:
        """Call `listener` with every change of a GpuJob; it must be quick."""
        self._watchers.append(listener)

    def watch_queues(self, listener: Callable[[], None]) -> None:
        """Call `listener` when queues have changed; it must be quick."""
        self._queue_watchers.append(listener)

    # -------------------------------------------------------------------------- queues, nodes and the rest

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        objects = self._in_cluster.get(collection)
        if objects is None:
            return super().put(collection, *values, record=record)

        def ask() -> None:
            for value in values:
                objects.put(value)

        return self._asked(ask, record)

    def find(
        self,
        collection: Collection[T],
        *,
        limit: int | None = None,
        after: tuple[object, ...] | None = None,
        **fields: str | None,
    ) -> list[T]:
        objects = self._in_cluster.get(collection)
        if objects is None:
            return super().find(collection, limit=limit, after=after, **fields)
        return rules.listed(collection, objects.all(), limit, after, fields)

    def delete(
        self, collection: Collection[Any], key: str, *, record: AuditRecord | None = None
    ) -> "Future[None]":
        objects = self._in_cluster.get(collection)
        if objects is None:
            return super().delete(collection, key, record=record)
        return self._asked(lambda: objects.delete(key), record)

    def prune(self, limits: PruneLimits) -> "Future[int]":
        """Delete the objects of the jobs first, then the copy's rows."""

        def work(connection: sqlite3.Connection) -> int:
            old = sql_tables.ended(connection, limits)
            self._sweeper.remove([home for job in old if (home := self._news.home(job)) is not None])
            for job in old:
                self._news.let_go(job)
            return sql_tables.prune(limits)(connection).gone

        return self._writer.do(work)

    def _asked(self, ask: Callable[[], None], record: AuditRecord | None) -> "Future[None]":
        """Run the request in its turn among the writes."""

        def work(_: sqlite3.Connection) -> None:
            with asking():
                ask()

        return self._put(lambda: work, record)

    def close(self) -> None:
        self._closing.set()
        self._writer.close()
        self._recorder.close()
        for part in (self.objects, self._queues, self._cordons, self._announcer):
            part.close()
        self._pool.shutdown()
        super().close()
        if self._temporary is not None:
            self._temporary.cleanup()

    # -------------------------------------------------------------------------------- in the writer's thread

    def _record(self, writes: Sequence[JobWrite]) -> Mapping[JobId, Exception]:
        failed = self._recorder.record(writes)
        for write in writes:
            home = self._news.home(write.job.id)
            if write.event is not None and home is not None and write.job.id not in failed:
                self._announcer.say(home, write.event)
        return failed

    def _take_over(self, connection: sqlite3.Connection) -> int:
        items = self._sweeper.look()
        # Above all that the objects have seen: should the Lease have been lost, its count begins anew.
        highest = max((job_status_codec.epoch(item) for item in items), default=0)
        given = self._leadership.epoch if self._leadership else next_epoch(self._api, self._namespace)
        epoch = max(given, highest + 1)
        sql_tables.set_epoch(epoch)(connection)
        self._epoch = epoch
        self._sweeper.take_over(items, epoch)
        return epoch

    def _absorb(self, connection: sqlite3.Connection, taken: list[ObjectUpdates]) -> WriteOutcome:
        """Take the news of the cluster into the copy."""
        news = self._news.take()
        taken.append(news)
        items = list(news.items.values())
        newest = max((job_status_codec.epoch(item) for item in items), default=0)
        if newest > self._epoch:  # another one has taken over
            sql_tables.set_epoch(newest)(connection)
        written = mirror.take(connection, self._newer(connection, items)).written
        ended = mirror.end(connection, list(news.gone), self._clock(), DELETED).written
        return WriteOutcome(written=[*written, *ended])

    def _newer(self, connection: sqlite3.Connection, items: Sequence[Object]) -> list[MirroredJob]:
        """Return those jobs that the copy does not have in this state."""
        named = [(job, item) for item in items if (job := job_status_codec.job_of(item)) is not None]
        known, _ = mirror.versions(connection, [job for job, _ in named])
        newer = [item for job, item in named if job_status_codec.record_version(item) > known.get(job, 0)]
        return [found for item in newer if (found := job_status_codec.found(item)) is not None]

    # ---------------------------------------------------------------------------------- news of the cluster

    def _wake(self) -> None:
        self._take_news()

    def _take_news(self) -> "Future[Any]":
        taken: list[ObjectUpdates] = []
        future: Future[Any] = self._writer.do(lambda connection: self._absorb(connection, taken))

        def settle(done: "Future[Any]") -> None:
            """Settle only what was committed; if the copy has failed, it is tried again soon."""
            if done.exception() is None:
                self._news.settled(taken[-1])
            elif not self._closing.is_set():
                again = threading.Timer(AGAIN, self._wake)
                again.daemon = True
                again.start()

        future.add_done_callback(settle)
        return future

    def _changed(self, what: str, item: Object) -> None:
        self._news.heard(what, item)
        for watcher in self._watchers:
            watcher(what, item)

    def _queues_changed(self) -> None:
        for watcher in self._queue_watchers:
            watcher()

    def _seen(self, home: Home) -> Object | None:
        return self.objects.get(home.name, home.namespace)

    def _note(self, item: Object) -> None:
        self.objects.note(item)
        self._news.heard("MODIFIED", item)
