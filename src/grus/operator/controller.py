"""A controller while it leads: store, engine, loop and services, and what makes jobs of objects.

Made when leadership begins and closed when it ends, at the latest with the process. Nothing here waits for
leadership or answers HTTP.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack

from grus.controlplane.admission.submission import Submission
from grus.controlplane.application_wiring import ControlPlane
from grus.controlplane.security.rbac import is_admin, members_of
from grus.controlplane.settings import Settings
from grus.engines.kubernetes.engine import KubernetesEngine
from grus.kubernetes.api_objects.job_namespaces import (
    forbids_root,
    is_managed,
    namespace_of,
    system_mistake,
)
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.leader_election import Leadership
from grus.kubernetes.client.resource_kinds import NAMESPACES, NODES, Object
from grus.kubernetes.names import MANAGED
from grus.model.errors import Mistake, NotAllowed, StoreFailed
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import USERS, User
from grus.model.jobs import Job
from grus.operator import crd_schema_check
from grus.operator.admission import Admission, Surroundings
from grus.operator.foreign_jobs.sync import Converters
from grus.operator.job_metrics_collector import from_nodes
from grus.operator.jobs import Jobs
from grus.operator.namespace_rolebindings import Grants
from grus.operator.namespaces import refused
from grus.operator.options import Options
from grus.operator.plain.engine_router import EngineWithPods
from grus.operator.plain.pod_binding import PlainPods
from grus.operator.plain.store_router import StoreWithPods
from grus.operator.plain.unschedulable import Refuser
from grus.operator.pod_fields import PodFields
from grus.operator.queues import QueueBook, Queues
from grus.operator.reconcile_next_step import FINALIZER
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decisions
from grus.scheduler.queues.policies import policy_named
from grus.scheduler.state.snapshot import Snapshot
from grus.store.kubernetes.store import KubernetesStore
from grus.telemetry.tsdb import Recorder

SYNC = 120.0
"""Seconds for the first lists to come in."""
TICK, ALL = 1.0, 30.0
"""Seconds between looks at whether the pool has changed; and after which every object is looked at anyway."""
SOON = 0.2
"""Seconds after a change of a node until all watchers of nodes have received it."""

Decide = Callable[[Snapshot, float], Decisions]


class Controller:
    """All parts of a leading controller. `close` releases them; running work continues."""

    def __init__(
        self,
        api: Api,
        options: Options,
        leadership: Leadership,
        *,
        on_stopped: Callable[[str], None] = lambda _: None,
        make_decisions: Decide = decide,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._stack = ExitStack()
        self._closed = threading.Event()
        self._pool_news = threading.Event()
        self._rules_news = threading.Event()
        self._fit: dict[str, object] = {}
        try:
            self._build(api, options, leadership, on_stopped, make_decisions)
        except BaseException:
            self._stack.close()
            raise

    def _build(
        self,
        api: Api,
        options: Options,
        leadership: Leadership,
        on_stopped: Callable[[str], None],
        make_decisions: Decide,
    ) -> None:
        crd_schema_check.check(api, options.namespace)
        options.state.mkdir(parents=True, exist_ok=True)
        settings = Settings(
            state=options.state,
            containers=True,
            start_timeout=options.start_timeout,
            allowed_pod_fields=options.allowed_pod_fields,
        )
        self.book = QueueBook(api)
        self._stack.callback(self.book.close)
        self._namespaces = Reflector(api, NAMESPACES, on_change=lambda *_: self._rules_news.set())
        self._stack.callback(self._namespaces.close)
        self._nodes = Reflector(api, NODES, on_change=self._node_changed)
        self._stack.callback(self._nodes.close)
        for reflector in (self.book.objects, self._namespaces, self._nodes):
            if not reflector.wait_synced(SYNC):
                raise StoreFailed(f"the API server {api.server} did not list its objects; see its log")
        self._own = options.namespace
        self._pod_fields = PodFields(options.allowed_pod_fields, self._namespaces.get)
        grants = Grants(
            api,
            options.namespace,
            level=options.pod_security,
            find=self._namespaces.get,
            note=self._namespaces.note,
        )
        self.jobs_store = KubernetesStore(
            api,
            history=options.state / "grus.db",
            namespace=options.namespace,
            place=lambda job: self._place(job, grants),
            leadership=leadership,
            finalizers=(FINALIZER,),
            nodes=self._nodes,
            clock=self._clock,
        )
        grants.grant_all({found["metadata"]["namespace"] for found in self.jobs_store.objects.all()})
        refuser = Refuser(api, grants.grant)
        self._stack.callback(refuser.close)
        self.pods = PlainPods(
            api,
            resource=options.resource,
            leadership=leadership,
            judge=self._pod_mistakes,
            grant=grants.grant,
            on_refused=refuser.refuse,
            clock=self._clock,
        )
        self.store = StoreWithPods(self.jobs_store, self.pods, self.book.accepted)
        self._stack.callback(self.store.close)
        own_engine = KubernetesEngine(
            api,
            where=self.jobs_store.home,
            image=options.image,
            leadership=leadership,
            resource=options.resource,
            logs=options.state / "logs",
            template=options.template,
            system=options.namespace,
            pod_fields=self._pod_fields_of,
            forbids_root=self._forbids_root,
        )
        self.engine = EngineWithPods(own_engine, self.pods)
        self._stack.callback(self.engine.close)
        self.pods.start(SYNC)
        recorder = Recorder(options.state / "telemetry.db", clock=self._clock)
        self._stack.callback(recorder.close)
        plane = ControlPlane(
            self.store,
            self.engine,
            settings,
            from_nodes(self.engine, recorder, own_engine.tags, self._clock),
            decide=make_decisions,
            snapshot=Snapshot(policy=policy_named(options.policy)),
            tags=own_engine.tags,
            forecasts=options.forecasts,
            clock=self._clock,
            on_stopped=on_stopped,
        )
        self.loop, self.services = plane.loop, plane.services
        self._stack.callback(plane.close)
        plane.start()
        self._intake(api, settings, leadership, grants)
        converters = Converters(api, image=options.image)
        self._stack.callback(converters.close)
        converters.start()

    def _intake(self, api: Api, settings: Settings, leadership: Leadership, grants: Grants) -> None:
        """Set up the parts that make jobs of objects."""
        submission = Submission(self.store, self.loop.picture, settings)

        def admission(jobs: Jobs) -> Admission:
            around = Surroundings(
                self.book.openness, self._labels, jobs.names, self._pod_fields.of, system=self._own
            )
            return Admission(submission, around)

        self.jobs = Jobs(
            api,
            self.jobs_store,
            self.loop,
            self.services,
            admission,
            grant=grants.grant,
            valid=leadership.valid,
            clock=self._clock,
        )
        self._stack.callback(self.jobs.close)
        self.queues = Queues(
            api,
            self.book,
            self.store,
            self.loop,
            self.services,
            valid=leadership.valid,
            on_change=self._queues_changed,
            clock=self._clock,
        )
        self._stack.callback(self.queues.close)
        self.jobs.start()
        self.queues.start()
        ticker = threading.Thread(target=self._tick, name="ticker", daemon=True)
        self._stack.callback(ticker.join)
        self._stack.callback(self._pool_news.set)
        self._stack.callback(self._closed.set)
        ticker.start()

    def close(self) -> None:
        """Idempotent."""
        self._stack.close()

    def _queues_changed(self) -> None:
        self.jobs.look_again()
        self.pods.look_again()

    def _tick(self) -> None:
        version, next_look = self.loop.picture.version, time.monotonic() + ALL
        while not self._closed.is_set():
            if self._pool_news.wait(TICK):
                self._pool_news.clear()
                self._closed.wait(SOON)
                self.loop.refresh()
            if self.loop.picture.version != version or self._rules_news.is_set():
                self._rules_news.clear()
                version = self.loop.picture.version
                self._queues_changed()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + ALL
                self.jobs.look_again(all_of_them=True)
                self.pods.look_again()

    def _node_changed(self, kind: str, node: Object) -> None:
        """React at once to a node that comes, goes or is
        closed; a node that is merely still there is no change.
        """
        name, spec, status = node["metadata"]["name"], node.get("spec") or {}, node.get("status") or {}
        ready = [one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"]
        now = kind == "DELETED" or (
            spec.get("unschedulable"),
            spec.get("taints"),
            status.get("allocatable"),
            ready,
            node["metadata"].get("labels"),
        )
        if self._fit.get(name) != now:
            self._fit[name] = now
            self._pool_news.set()

    def _labels(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get(namespace)
        return {} if found is None else found["metadata"].get("labels") or {}

    def _place(self, job: Job, grants: Grants) -> str:
        """The namespace of a job that comes over HTTP, if its queue is open to it. Raises NotAllowed."""
        queue, namespace = job.spec.queue, namespace_of(job.spec.queue, job.user)
        labels = {MANAGED: "true", **self._labels(namespace)}  # it may have yet to be made
        why = refused(queue, namespace, labels, self.book.openness())
        if why is not None and not self._is_named(job.user, queue):
            raise NotAllowed(f"{why}; an administrator can add that namespace to the queue's")
        return grants.prepare(queue, job.user)

    def _is_named(self, name: UserName, queue: QueueName) -> bool:
        """Return True for an administrator, and for a member named by the queue or one above it."""
        queues = {one.name: one for one in self.book.accepted()}
        found = next((user for user in self.jobs_store.find(USERS) if user.name == name), User(name=name))
        return is_admin(found) or name in members_of(queue, queues)

    def _forbids_root(self, namespace: str) -> bool:
        found = self._namespaces.get(namespace)
        return found is not None and is_managed(found) and forbids_root(found)

    def _pod_fields_of(self, job: JobId) -> Collection[str]:
        return self._pod_fields.of(self.jobs_store.job(job).spec, self.jobs_store.home(job).namespace)

    def _pod_mistakes(self, pod: Object, job: Job) -> list[Mistake]:
        queues = {queue.name: queue for queue in self.book.accepted()}
        name, namespace = job.spec.queue, pod["metadata"]["namespace"]
        if (system := system_mistake(namespace, self._own)) is not None:
            return [system]
        why = refused(name, namespace, self._labels(namespace), self.book.openness())
        if why is not None:
            return [why]
        if name not in queues and name != "default":
            there = ", ".join(sorted({*queues, "default"}))
            return [Mistake("label grus.dev/queue", f"names no queue; there are {there}", name)]
        if any(queue.parent == name for queue in queues.values()):
            return [Mistake("label grus.dev/queue", "must be a queue without others below it", name)]
        return []
