"""The engine of a cluster: `grus.model.interfaces.Engine` with pods (see `docs/kubernetes-engine.md`).

One object per controller. What it holds are copies of what the API server has; closing or killing it changes
nothing for the workers. No method waits for the cluster, but for `open`, and `log` where nothing is kept yet.
"""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grus.concurrency.listeners import Listeners
from grus.engines.kubernetes import worker_registry
from grus.engines.kubernetes.fencing import Fence
from grus.engines.kubernetes.keyed_executor import Lanes
from grus.engines.kubernetes.logs import Logs
from grus.engines.kubernetes.node_agents import Agents
from grus.engines.kubernetes.node_inventory import KubernetesPool
from grus.engines.kubernetes.nodes import Rules
from grus.engines.kubernetes.pod_manifest import Recipe
from grus.engines.kubernetes.pod_operations import PodExecutor, PodRules
from grus.engines.kubernetes.watcher import Watcher
from grus.engines.local.log_rotation import read
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.leader_election import Leadership
from grus.kubernetes.client.resource_kinds import NODES, PODS, Object
from grus.kubernetes.names import SAID, TAG
from grus.kubernetes.node.tag_annotations import read as read_tag
from grus.model.activity_labels import Tag, together
from grus.model.errors import Conflict, Unreachable
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Usage, WorkerSpec, WorkerState, WorkerStatus
from grus.model.nodes import Node

logger = logging.getLogger(__name__)

SYSTEM = "grus-system"
"""The namespace of Grus itself."""
LOST_AFTER = 60.0
"""Seconds after which a node that is not ready counts as gone. Kubernetes takes 40 to see its silence."""
CALLS = 8
"""Calls to the API server at a time."""
FIRST_LIST = 60.0
"""Seconds for the first look at the cluster."""
ANSWERS = 2.0
"""Seconds that node agents have to deliver the reports made while no engine was running."""
LAST_COPY = 10.0
"""Seconds that a reader waits for the log of a worker that is just being forgotten."""


@dataclass(slots=True)
class _Open:
    """State that exists between `open` and `close`."""

    fence: Fence
    watcher: Watcher
    lanes: Lanes
    hands: PodExecutor
    reflectors: tuple[Reflector, ...]


class KubernetesEngine:
    """Engine of a Kubernetes cluster.

    `where` returns the place of a job's object; `logs` is a folder of the engine's own. `template` is merged
    into every pod; `within` restricts the engine to the workers of one namespace; `agents` is the namespace
    of the node agents, if it is not `system`.
    """

    def __init__(
        self,
        api: Api,
        *,
        where: Callable[[JobId], Home],
        image: str,
        logs: Path,
        leadership: Leadership | None = None,
        resource: str = "nvidia.com/gpu",
        tolerations: Sequence[Mapping[str, Any]] = (),
        template: Mapping[str, Any] | None = None,
        system: str = SYSTEM,
        agents: str = "",
        within: str = "",
        lost_after: float = LOST_AFTER,
        calls: int = CALLS,
        pod_fields: Callable[[JobId], Collection[str]] = lambda _: (),
        forbids_root: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._api = api
        self._allows = PodRules(pod_fields, forbids_root)
        self._where = where
        self._image = image
        self._logs = Logs(api, logs)
        self._leadership = leadership
        self._rules = Rules(resource, tuple(tolerations))
        self._template = dict(template or {})
        self._system = system
        self._within = within
        self._calls = calls
        self._pool = KubernetesPool(self._rules, lost_after, time.monotonic, self._complain)
        self._agents = Agents(agents or system)
        self._listeners: Listeners[WorkerStatus] = Listeners("changes of workers")
        self._opened: _Open | None = None

    # ------------------------------------------------------------------------------ opening, closing

    def open(self, epoch: int) -> None:
        self.close()
        fence = Fence(self._api, self._system, self._leadership)
        fence.take(epoch)
        watcher = Watcher(
            self._pool, self._rules.resource, self._within, self._system, self._tell, self._where
        )
        lanes = Lanes(self._calls)
        recipe = Recipe(self._image, epoch, self._rules, self._template)
        hands = PodExecutor(
            self._api,
            lanes,
            fence,
            watcher,
            self._pool,
            self._logs,
            recipe,
            self._where,
            self._system,
            self._agents,
            self._allows,
        )

        def pod_changed(what: str, pod: Object) -> None:
            self._agents.pod_changed(what, pod)
            watcher.pod_changed(what, pod)

        # Nodes first: a pod on an unknown node counts as lost.
        nodes = Reflector(self._api, NODES, on_change=watcher.node_changed)
        reflectors = [nodes]
        try:
            self._wait(nodes)
            reflectors.append(Reflector(self._api, PODS, on_change=pod_changed))
            self._wait(reflectors[-1])
        except Unreachable:
            lanes.close()
            for reflector in reflectors:
                reflector.close()
            raise
        self._ask_agents(watcher, hands, epoch)
        watcher.start()
        self._opened = _Open(fence, watcher, lanes, hands, tuple(reflectors))

    def close(self) -> None:
        now, self._opened = self._opened, None
        if now is None:
            return
        for reflector in now.reflectors:
            reflector.close()
        now.lanes.close()
        now.watcher.close()
        self._logs.close()

    def _wait(self, reflector: Reflector) -> None:
        if not reflector.wait_synced(FIRST_LIST):
            raise Unreachable(f"the cluster could not be listed within {FIRST_LIST:.0f} s")

    def _ask_agents(self, watcher: Watcher, hands: PodExecutor, epoch: int) -> None:
        """Have the reports that workers made while no engine
        was running delivered, before any caller reads them.
        """
        with watcher.lock:
            nodes = {
                record.node
                for record in watcher.records.values()
                if record.status.state is WorkerState.RUNNING and not self._pool.silent() & {record.node}
            }
        agents = self._agents.on(nodes)
        word = f"{epoch}-{secrets.token_hex(4)}"
        for agent in agents:
            hands.ask(agent, word)
        if not self._agents.wait_for({agent["metadata"]["name"] for agent in agents}, word, ANSWERS):
            logger.warning("not all node agents have answered; what their workers said comes as news")

    def _now(self) -> _Open:
        if self._opened is None:
            raise Conflict("the engine is not open")
        return self._opened

    def _acting(self) -> _Open:
        """Return the open state for an engine call; raises Fenced if a newer engine has taken over."""
        now = self._now()
        now.fence.check()
        return now

    # ------------------------------------------------------------------------------------- the pool

    def nodes(self) -> tuple[Node, ...]:
        return self._pool.nodes()

    def mechanisms(self) -> dict[str, str]:
        return {
            "isolation": "pods: containers without privileges, seccomp on, a control group each",
            "stopping": "graceful deletion; the node agent kills at the very moment, and what is left behind",
            "slices": "a reservation pod holds the GPU; GRUS_GPU_MEMORY_FRACTION for the allocator, and the "
            "node agent's watchdog, by whose word offenders are evicted",
            "memory": "limits of the pods' control groups",
            "cpu": "requests of the pods",
            "telemetry": "node agents: control groups, and NVML where there is a driver",
            "devices": f"{self._rules.resource}, chosen by the kubelet; Grus decides node and number",
        }

    # ---------------------------------------------------------------------------------- the workers

    def start(self, worker: WorkerSpec) -> None:
        now = self._acting()
        with now.watcher.lock:
            if worker.id in now.watcher.records or worker.id in now.watcher.forgotten:
                return
            record = worker_registry.started(worker)
            now.watcher.add(record)
        now.hands.start(record)

    def stop(self, worker: WorkerId, grace: float) -> None:
        now = self._acting()
        kill_at = time.time() + max(0.0, grace)
        with now.watcher.lock:
            record = now.watcher.records.get(worker)
            if record is None or record.ended or (record.kill_at is not None and record.kill_at <= kill_at):
                return
            record.kill_at = kill_at
        now.hands.stop(record)

    def publish(self, worker: WorkerId, control: str) -> None:
        now = self._acting()
        with now.watcher.lock:
            record = now.watcher.records.get(worker)
            if record is None or record.ended:
                return
            record.control = control
        now.hands.publish(record)

    def workers(self) -> tuple[WorkerStatus, ...]:
        watcher = self._now().watcher
        with watcher.lock:
            return tuple(record.status for record in watcher.records.values())

    def subscribe(self, listener: Callable[[WorkerStatus], None]) -> Callable[[], None]:
        return self._listeners.add(listener)

    def forget(self, worker: WorkerId) -> None:
        now = self._acting()
        with now.watcher.lock:
            record = now.watcher.records.get(worker)
            if record is None:
                return
            if not record.ended:
                raise Conflict(f"worker {worker} has not ended; stop it first")
            del now.watcher.records[worker]
            if record.pod is not None:
                now.watcher.forgotten[worker] = record.pod["metadata"]["uid"]
        now.hands.forget(record)

    # -------------------------------------------------------------------------------- use, and logs

    def usage(self) -> tuple[Usage, ...]:
        watcher = self._now().watcher
        with watcher.lock:
            running = {
                record.pod["metadata"]["uid"]: record.status.id
                for record in watcher.records.values()
                if record.status.state is WorkerState.RUNNING and record.pod is not None
            }
        return self._agents.usage(running)

    def tags(self, now: float) -> Mapping[JobId, Tag]:
        """Return the tags that the nodes' profilers have
        recognized in running jobs, if they are still valid.
        """
        watcher = self._now().watcher
        found: dict[JobId, list[Tag]] = {}
        with watcher.lock:
            for record in watcher.records.values():
                if record.status.state is WorkerState.RUNNING and record.pod is not None:
                    tag = read_tag((record.pod["metadata"].get("annotations") or {}).get(TAG, ""))
                    if tag is not None and tag.live(now):
                        found.setdefault(record.status.job, []).append(tag)
        return {job: together(tags) for job, tags in found.items()}

    def report(self, worker: WorkerId) -> str:
        watcher = self._now().watcher
        with watcher.lock:
            record = watcher.records.get(worker)
            pod = record.pod if record is not None else None
        return str((pod["metadata"].get("annotations") or {}).get(SAID, "")) if pod is not None else ""

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        now = self._now()
        with now.watcher.lock:
            record = now.watcher.records.get(worker)
            source = worker_registry.source(record) if record is not None else None
        if record is not None:
            return self._logs.read(worker, record.status.job, source, offset, limit)
        if now.lanes.busy(worker):
            now.lanes.settle(worker, LAST_COPY)
        return read(str(self._logs.kept(worker)), offset, limit)

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        watcher = self._now().watcher
        with watcher.lock:
            there = [id_ for id_, record in watcher.records.items() if record.status.job == job]
        return tuple({*there, *self._logs.workers(job)})

    def remove_logs(self, job: JobId) -> None:
        self._acting()
        self._logs.remove(job)

    # -------------------------------------------------------------------------------------- inside

    def _complain(self, node: str, text: str) -> None:
        if self._opened is not None:
            self._opened.hands.complain(node, text)

    def _tell(self, status: WorkerStatus) -> None:
        self._listeners.tell(status)
