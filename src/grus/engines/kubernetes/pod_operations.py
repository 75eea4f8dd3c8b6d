"""Actions of the engine on a cluster: create pods, ask them to end, send them orders, remove them.

Each call is a task in its worker's lane, so that a worker's calls keep their order while thousands of workers
do not wait for each other. The fence is checked before each call. Every task can be repeated.
"""

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from grus.engines.kubernetes import pod_manifest, pod_status, reservations, worker_registry
from grus.engines.kubernetes.fencing import Fence
from grus.engines.kubernetes.keyed_executor import Lanes, Later
from grus.engines.kubernetes.logs import Logs
from grus.engines.kubernetes.node_agents import Agents
from grus.engines.kubernetes.node_inventory import KubernetesPool
from grus.engines.kubernetes.nodes import complaint, terminal
from grus.engines.kubernetes.pod_cleanup import PodRemoval
from grus.engines.kubernetes.pod_manifest import CannotStart, Recipe, Slice
from grus.engines.kubernetes.watcher import Watcher
from grus.engines.kubernetes.worker_registry import PodRecord
from grus.engines.local.state_files import safe_name
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.bundle import code_bundles
from grus.kubernetes.bundle.unpacking import PREFIX as BUNDLE
from grus.kubernetes.bundle.unpacking import InvalidArchive
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Conflicts, Exists, Forbidden, Missing, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import EVENTS, PODS, SERVICES, Object
from grus.kubernetes.names import ASKED, CONTROL, KILL_AT, SIGNALLED, VERDICT
from grus.model.errors import NotFound
from grus.model.identifiers import DeviceId, JobId
from grus.model.interfaces import WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause
from grus.model.resources import GPU

logger = logging.getLogger(__name__)

LOOK = 0.1
"""Seconds between two looks at a reservation that is not ready yet."""
LONGEST_WAIT = 120.0
"""Seconds in which a reservation has to run (its image may have to be fetched) and its GPU to be known."""
HEAD_START = 3.0
"""Seconds that the node agent has to tell a worker to end, or to kill it, before it is the kubelet's turn."""
LONG_START = 10.0
"""The same where the worker's first process may have yet to appear: a kubelet may need as long for it."""
TURN = 0.5
"""Seconds between two looks at whether it has."""
MOST_TRIES = 5
"""Times that a write is repeated after a conflict; after that it is forced."""
_NO_ACCOUNT_YET = ("service account", "serviceaccount")


@dataclass(frozen=True, slots=True)
class PodRules:
    """The cluster's rules for pods of jobs."""

    fields: Callable[[JobId], Collection[str]] = lambda _: ()
    """Fields of `pod` that an administrator allows to a job."""
    forbids_root: Callable[[str], bool] = lambda _: False
    """True if pods of a namespace must not be root, by its name."""


class PodExecutor:
    """Lives from `Engine.open` to `Engine.close`."""

    def __init__(
        self,
        api: Api,
        lanes: Lanes,
        fence: Fence,
        watcher: Watcher,
        pool: KubernetesPool,
        logs: Logs,
        recipe: Recipe,
        where: Callable[[JobId], Home],
        system: str,
        agents: Agents,
        allows: PodRules,
    ) -> None:
        self._api = api
        self._allows = allows
        self._agents = agents
        self._lanes = lanes
        self._fence = fence
        self._watcher = watcher
        self._pool = pool
        self._logs = logs
        self._recipe = recipe
        self._where = where
        self._system = system
        self._services: set[tuple[str, str]] = set()
        self._kept: set[tuple[str, str]] = set()
        """Jobs that own their code."""
        self._restricted: set[str] = set()
        """Namespaces that have refused a pod that may be root."""
        self._chooses: set[str] = set()
        """Namespaces that choose user ids themselves."""
        self._removing = PodRemoval(api, fence, pool, logs)
        watcher.on_doom = self.doom
        watcher.on_end = self._judge
        watcher.on_unused = self._release
        watcher.on_turn = logs.tend

    # --------------------------------------------------------------------------------------- starts

    def start(self, record: PodRecord) -> None:
        self._lanes.submit(record.status.id, lambda: self._start(record))

    def _start(self, record: PodRecord) -> None:
        worker = record.spec
        assert worker is not None
        if record.kill_at is not None:
            self._end(record, ExitCause.STOPPED, "stopped before it started")
            return
        self._fence.check()
        try:
            self._make(record, worker)
        except CannotStart as why:
            self._end(record, ExitCause.START, str(why))
        except NotFound as why:  # its job has just been deleted
            self._end(record, ExitCause.START, str(why))
        except Refused as why:
            if isinstance(why, Forbidden) and any(words in why.text for words in _NO_ACCOUNT_YET):
                raise Later(LOOK) from why  # a namespace this young has no service account yet
            self._end(record, ExitCause.START, why.text)

    def _make(self, record: PodRecord, worker: WorkerSpec) -> None:
        for name, value in (("worker", worker.id), ("job", worker.job)):
            if not safe_name(value):
                raise CannotStart(
                    f"a {name}'s id has lower-case letters, digits, dots and dashes only: {value!r}"
                )
        home = self._where(worker.job)
        pod_manifest.require_allowed(worker, self._allows.fields(worker.job))
        if pod_manifest.wants_service(worker):
            self._make_service(worker, home)
        if worker.workdir.startswith(BUNDLE) and home.uid:
            self._keep_code(worker, home)
        slice_ = self._slice(record, worker) if record.sliced else None
        if record.sliced and slice_ is None:
            return
        with self._watcher.lock:
            control = record.control
        self._take(record, self._create(worker, home, slice_, control), control)

    def _create(self, worker: WorkerSpec, home: Home, slice_: Slice | None, control: str | None) -> Object:
        namespace = home.namespace
        restricted = namespace in self._restricted or self._allows.forbids_root(namespace)
        user = (
            ""
            if not restricted
            else pod_manifest.NON_ROOT
            if namespace in self._chooses
            else pod_manifest.NOBODY
        )
        body = pod_manifest.pod(worker, home, self._recipe, slice_=slice_, control=control, user=user)
        try:
            return self._api.create(PODS, body, home.namespace)
        except Exists:
            there = self._api.get(PODS, body["metadata"]["name"], home.namespace)
            if pod_status.worker_of(there) != worker.id:
                name = f"{home.namespace}/{body['metadata']['name']}"
                raise CannotStart(f"a pod {name} is there already that is not Grus's") from None
            return there
        except Forbidden as why:
            if not restricted and "runAsNonRoot" in why.text:
                self._restricted.add(namespace)
            elif user == pod_manifest.NOBODY and "runAsUser" in why.text:
                self._chooses.add(namespace)
            else:
                raise
            return self._create(worker, home, slice_, control)

    def _take(self, record: PodRecord, pod: Object, control: str | None) -> None:
        with self._watcher.lock:
            record.control_sent = control
            self._watcher.look(record, pod)

    def _keep_code(self, worker: WorkerSpec, home: Home) -> None:
        """Have its code stay for as long as the job does. Raises NotFound if it is not there."""
        key = (home.uid, worker.workdir)
        if key not in self._kept:
            try:
                code_bundles.adopt(self._api, home.namespace, worker.workdir, pod_manifest.owner(home))
            except InvalidArchive as why:
                raise CannotStart(f"{worker.workdir}: {why}") from why
            self._kept.add(key)

    def _make_service(self, worker: WorkerSpec, home: Home) -> None:
        """Create the service once for all workers of a job.

        The first caller creates it; the others need not wait for it.
        """
        body = pod_manifest.service(worker, home)
        key = (home.namespace, body["metadata"]["name"])
        with self._watcher.lock:
            if key in self._services:
                return
            self._services.add(key)
        try:
            with suppress(Exists):
                self._api.create(SERVICES, body, home.namespace)
        except (Refused, Unreachable):
            self._services.discard(key)
            raise

    # -------------------------------------------------------------------------------------- slices

    def _slice(self, record: PodRecord, worker: WorkerSpec) -> Slice | None:
        """Return the worker's slice of its GPU, once the GPU is reserved; None if it cannot be."""
        device = worker.devices[0]
        with self._watcher.lock:
            if device in self._watcher.leaving:
                raise Later(LOOK)
            held = self._watcher.reservations.get(device)
        if held is None:
            body = reservations.reservation(device, self._system, self._recipe)
            with suppress(Exists):
                self._api.create(PODS, body, self._system)
            raise Later(LOOK)
        failure = reservations.failure(held)
        if failure:
            self._end(record, ExitCause.LOST, failure)
            return None
        uuid = reservations.uuid_of(held)
        if not uuid:
            record.waits_since = record.waits_since or time.monotonic()
            if time.monotonic() > record.waits_since + LONGEST_WAIT:
                name = f"{self._system}/{reservations.name(device)}"
                raise CannotStart(f"nobody has said which GPU the pod {name} holds; does a node agent run?")
            raise Later(LOOK)
        whole = self._memory(device)
        return Slice(uuid, worker.gpu_memory or whole * worker.share // GPU, whole)

    def _memory(self, device: DeviceId) -> int:
        node = self._pool.node(device.rpartition("/")[0])
        found = (one.memory for one in node.devices if one.id == device) if node is not None else iter(())
        return next(found, 0)

    def _release(self, device: DeviceId, by_force: bool) -> None:
        self._lanes.submit(("reservation", device), lambda: self._remove_reservation(device, by_force))

    def _remove_reservation(self, device: DeviceId, by_force: bool) -> None:
        self._fence.check()
        with suppress(Missing):
            name = reservations.name(device)
            self._api.delete(PODS, name, self._system, grace=0 if by_force else None)

    # --------------------------------------------------------------------------------------- stops

    def stop(self, record: PodRecord) -> None:
        self._lanes.submit(record.status.id, lambda: self._stop(record))

    def _stop(self, record: PodRecord) -> None:
        with self._watcher.lock:
            if record.pod is None or record.ended or record.kill_at is None:
                return
            if record.kill_at_sent is not None and record.kill_at_sent <= record.kill_at:
                return
            source = worker_registry.source(record)
            runs = record.status.state is WorkerState.RUNNING
        self._fence.check()
        listens = bool(self._agents.on({record.node}))
        if runs and not listens and source is not None and not self._pool.gone(record.node):
            self._logs.follow(record.status.id, record.status.job, source)
        if not self._mark(record, _when_to_kill):
            return
        if listens:
            self._lanes.submit(("stop", record.status.id), self._deletion(record))
        else:
            self._delete(record)

    def _deletion(self, record: PodRecord) -> Callable[[], None]:
        """Return the task that deletes a worker's pod if the node agent does not end the worker in time."""
        runs = record.status.state is WorkerState.RUNNING
        due = time.monotonic() + (HEAD_START if runs else LONG_START)

        def look() -> None:
            with self._watcher.lock:
                if record.ended or record.pod is None or terminal(record.pod):
                    return
                heard = SIGNALLED in (record.pod["metadata"].get("annotations") or {})
                killed = (record.kill_at_sent or 0.0) + HEAD_START
            if time.monotonic() < due or (heard and time.time() < killed):
                raise Later(TURN)
            self._delete(record)

        return look

    def doom(self, record: PodRecord, exit_: Exit) -> None:
        """End a worker because it cannot continue; under the watcher's lock."""
        self._lanes.submit(record.status.id, lambda: self._doom(record, exit_))

    def _doom(self, record: PodRecord, exit_: Exit) -> None:
        self._fence.check()
        notes = {KILL_AT: f"{time.time():.3f}", VERDICT: pod_status.verdict(exit_)}
        if not self._mark(record, lambda _: notes):
            return
        if record.status.state is WorkerState.RUNNING and self._agents.on({record.node}):
            self._lanes.submit(("stop", record.status.id), self._deletion(record))
        else:
            self._delete(record)

    def _mark(self, record: PodRecord, what: Callable[[PodRecord], dict[str, str]]) -> bool:
        """Annotate the pod that it is to end, if it has not ended by itself; return whether it was written.

        The write applies only to the very state that was read: an end that was not requested must not look
        like a requested one.
        """
        for attempt in range(MOST_TRIES):
            with self._watcher.lock:
                pod = record.pod
                if pod is None or record.ended or terminal(pod):
                    return False
                notes = what(record)
            metadata: Object = {"annotations": notes}
            if attempt < MOST_TRIES - 1:
                metadata["resourceVersion"] = pod["metadata"]["resourceVersion"]
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            try:
                now = self._api.patch(PODS, name, {"metadata": metadata}, namespace)
            except Conflicts:
                now = self._api.get(PODS, name, namespace)
            except Missing:
                return False
            with self._watcher.lock:
                self._watcher.look(record, now)
            if all((now["metadata"].get("annotations") or {}).get(key) == notes[key] for key in notes):
                return True
        return False

    def _delete(self, record: PodRecord) -> None:
        assert record.pod is not None
        metadata = record.pod["metadata"]
        grace = pod_manifest.seconds((record.kill_at_sent or 0.0) - time.time())
        with suppress(Missing, Conflicts):  # gone already, or another pod has its name
            self._api.delete(PODS, metadata["name"], metadata["namespace"], grace=grace, uid=metadata["uid"])

    # ------------------------------------------------------------------------------- news and ends

    def publish(self, record: PodRecord) -> None:
        self._lanes.submit(record.status.id, lambda: self._publish(record))

    def _publish(self, record: PodRecord) -> None:
        with self._watcher.lock:
            pod, control = record.pod, record.control
            if pod is None or record.ended or control == record.control_sent:
                return
        self._fence.check()
        metadata = pod["metadata"]
        with suppress(Missing, Conflicts):
            body = {"metadata": {"annotations": {CONTROL: control}, "uid": metadata["uid"]}}
            self._take(record, self._api.patch(PODS, metadata["name"], body, metadata["namespace"]), control)

    def complain(self, node: str, text: str) -> None:
        """Report a problem with a node, for `kubectl describe node`."""
        self._lanes.submit(("node", node), lambda: self._complain(node, text))

    def _complain(self, node: str, text: str) -> None:
        self._fence.check()
        event = complaint(node, text, datetime.now(UTC))
        try:
            self._api.create(EVENTS, event, "default")
        except Refused as why:
            logger.info("no event about node %s: %s", node, why)

    def ask(self, agent: Object, word: str) -> None:
        """Have a node agent echo a token once all reports of its workers are delivered."""
        name, namespace = agent["metadata"]["name"], agent["metadata"]["namespace"]

        def ask() -> None:
            with suppress(Missing):
                self._api.patch(PODS, name, {"metadata": {"annotations": {ASKED: word}}}, namespace)

        self._lanes.submit(("agent", name), ask)

    def forget(self, record: PodRecord) -> None:
        """Keep its log, then remove its pod."""
        tries = iter(range(MOST_TRIES))

        def remove() -> None:
            self._removing.remove(record, last=next(tries, None) is None)

        self._lanes.submit(record.status.id, remove)

    def _judge(self, record: PodRecord, status: WorkerStatus) -> None:
        """Determine its end, with its log if that may show more; under the watcher's lock."""
        if status.exit is None or not pod_status.may_be_gpu_memory(status.exit):
            self._watcher.end(record, status)
        else:
            self._lanes.submit(("end", record.status.id), lambda: self._read_end(record, status))

    def _read_end(self, record: PodRecord, status: WorkerStatus) -> None:
        where = worker_registry.source(record)
        assert where is not None
        assert status.exit is not None
        found = pod_status.with_log(status.exit, self._logs.tail(where))
        self._watcher.end(record, replace(status, exit=found))

    def _end(self, record: PodRecord, cause: ExitCause, text: str) -> None:
        self._watcher.end_as(record, Exit(cause, None, text))


def _when_to_kill(record: PodRecord) -> dict[str, str]:
    """Return the annotation with the kill time: at once
    if nothing has started yet that could save anything.
    """
    now = time.time()
    wanted = now if record.kill_at is None else record.kill_at
    return {KILL_AT: f"{min(wanted, now) if record.status.state is WorkerState.STARTING else wanted:.3f}"}
