"""A cluster of pretend nodes under a real controller, and people who use it with kubectl.

The words are those of `tests.live.pool`, so that a history reads the same on one machine and in a cluster.
`settle` does not wait for some time but for a proof that nothing moves any more.
"""

import json
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import yaml

from grus.controlplane.workers.worker_launch_spec import members
from grus.kubernetes.client.api import Api, Exists, Refused, Unreachable
from grus.kubernetes.client.leader_election import Leadership
from grus.kubernetes.client.resource_kinds import (
    DEFINITIONS,
    GPU_JOBS,
    GPU_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    Object,
)
from grus.kubernetes.install.custom_resources import definitions
from grus.kubernetes.names import JOB
from grus.model.jobs import TERMINAL, Phase
from grus.operator.controller import Controller
from grus.operator.options import SYSTEM, Options
from grus.operator.plain.pods_as_jobs import QUEUE
from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.kubelets import GPU, Kubelets, add_nodes

RESTING = {Phase.PENDING, Phase.PAUSED, Phase.RUNNING} | TERMINAL


def prepare(api: Api) -> None:
    """Definitions and the namespace of Grus itself, if they are not there yet."""
    for definition in definitions():
        try:
            api.create(DEFINITIONS, definition)
        except Exists:
            continue
    with suppress(Exists):
        api.create(NAMESPACES, {"metadata": {"name": SYSTEM}})
    until(lambda: api.serves(GPU_JOBS) and api.serves(GPU_QUEUES), "the definitions are served")


def pods_can_be_made(api: Api, namespace: str) -> bool:
    """Not before the controllers have given it a service account."""
    pod = {"metadata": {"name": "trial"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    try:
        api.create(PODS, pod, namespace, dry_run=True)
    except (Refused, Unreachable):
        return False
    return True


class KubernetesPool:
    """Use it as a context manager: on the way out everything ends, and nothing may be left."""

    resource = GPU
    settings: ClassVar[Mapping[str, Any]] = {}
    """More of the controller's options."""

    def __init__(self, cluster: Cluster, folder: Path, gpus: int = 4, **queues: dict[str, Any]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._gpus = gpus
        self._queues = queues
        self._later = 0.0
        self._stack = ExitStack()
        self.namespace = f"pool-{uuid.uuid4().hex[:8]}"
        self.api = Api.connect(cluster.kubeconfig, connections=16)
        self._stack.callback(self.api.close)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        prepare(self.api)
        self.api.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        until(lambda: pods_can_be_made(self.api, self.namespace), "the namespace has its account")
        self.given()
        self.kubelets = self._stack.enter_context(Kubelets(self.api))
        add_nodes(self.api, ["n1"], self._gpus, port=self.kubelets.port, resource=self.resource)
        self._stack.callback(self.api.delete, NODES, "n1")
        api = self.controller_api()
        leadership = Leadership(api, SYSTEM, duration=15, renew=3)
        assert leadership.acquire()
        self._stack.callback(leadership.release)
        options = Options(
            state=self._folder / "state", image="localhost/grus:1", resource=self.resource, **self.settings
        )
        self.controller = Controller(api, options, leadership, clock=self.now)
        self._stack.callback(self.controller.close)
        for name, spec in self._queues.items():
            self.apply("GpuQueue", name, spec)
        until(lambda: self._known(*self._queues), "the queues count")

    def controller_api(self) -> Api:
        """Whose rights the controller has: here an administrator's."""
        return self.api

    def given(self) -> None:
        """Put objects into the cluster before kubelets and controller start; none by default."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                with suppress(Exception):  # the failure itself must be shown in any case
                    print(self._report())
            self.api.raw("DELETE", GPU_JOBS.path(self.namespace))  # kubectl takes its time over many
            until(lambda: not self.api.list(GPU_JOBS, self.namespace)[0], "all jobs are gone")
            self.kubectl("delete", "pods", "--all", "-n", self.namespace, "--timeout=300s")
            self.kubectl("delete", "gpuqueues", "--all", "--timeout=300s")
            if kind is None:
                until(lambda: not self.api.list(PODS, self.namespace)[0], "all pods are gone")
        finally:
            self._stack.close()

    # ------------------------------------------------------------------------------------------ time

    def now(self) -> float:
        return time.time() + self._later

    def after(self, seconds: float) -> None:
        """The controller's clock is set forward."""
        self._later += seconds

    # --------------------------------------------------------------------------------------- kubectl

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl(*words, stdin=stdin)

    def apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        self.apply_all([self.an_object(kind, name, spec)])

    def apply_all(self, objects: list[Object]) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def an_object(self, kind: str, name: str, spec: dict[str, Any]) -> Object:
        metadata = {"name": name} | ({"namespace": self.namespace} if kind == "GpuJob" else {})
        return {"apiVersion": GPU_JOBS.api_version, "kind": kind, "metadata": metadata, "spec": spec}

    def a_job(self, name: str, queue: str, gpu: int | str = 1, **spec: Any) -> Object:
        content = {"queue": queue, "run": "true", "resources": {"gpu": gpu}, **spec}
        return self.an_object("GpuJob", name, content)

    def run(self, name: str, queue: str = "default", gpu: int | str = 1, **spec: Any) -> None:
        self.apply_all([self.a_job(name, queue, gpu, **spec)])
        self.settle()

    def submit_many(self, queue: str, count: int) -> None:
        objects = [self.a_job(f"{queue}-{number:02}", queue) for number in range(count)]
        self.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objects))
        until(lambda: self._recorded(queue) >= count, "all are on record")

    def cordon(self) -> None:
        self.kubectl("cordon", "n1")
        until(lambda: self.controller.loop.picture.nodes[0].cordoned, "the controller knows of it")

    def uncordon(self) -> None:
        self.kubectl("uncordon", "n1")
        until(lambda: not self.controller.loop.picture.nodes[0].cordoned, "the controller knows of it")
        self.settle()

    def a_pod(self, name: str, gpus: int = 1, *, queue: str = "", scheduler: str = "grus") -> Object:
        """One that belongs to no GpuJob."""
        limits = {"limits": {self.resource: str(gpus)}}
        labels = {QUEUE: queue} if queue else {}
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        spec = {"schedulerName": scheduler, "containers": [{"name": "x", "image": "x", "resources": limits}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def pods_of_all(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.api.list(PODS, self.namespace)[0])

    def node_of(self, pod: str) -> str:
        return str(self.api.get(PODS, pod, self.namespace)["spec"].get("nodeName", ""))

    def said(self, kind: str, name: str, condition: str) -> tuple[str, str]:
        """Status and message of a condition; "" for one that is not there."""
        words = ("-n", self.namespace) if kind != "gpuqueue" else ()
        found = json.loads(self.kubectl("get", kind, name, *words, "-o", "json"))
        for one in found.get("status", {}).get("conditions", ()):
            if one["type"] == condition:
                return one["status"], one.get("message", "")
        return "", ""

    def until_said(self, kind: str, name: str, condition: str, status: str, *words: str) -> None:
        """Until the condition has that status and its message all these words."""

        def said() -> bool:
            found, message = self.said(kind, name, condition)
            return found == status and all(word in message for word in words)

        try:
            until(said, f"{kind} {name} says {condition}={status} with {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}, but {self.said(kind, name, condition)}") from None

    def delete(self, name: str) -> None:
        self.kubectl("delete", "gpujob", name, "-n", self.namespace, "--timeout=300s")
        self.settle()

    def finish(self, name: str) -> None:
        """Its program ends with 0."""
        for pod in self.pods(name):
            self.kubelets.finish(self.namespace, pod["metadata"]["name"])
        until(lambda: self.job(name)["status"]["phase"] == "succeeded", f"{name} has succeeded")
        self.settle()

    # --------------------------------------------------------------------------------------- looking

    def jobs(self) -> dict[str, Object]:
        found = json.loads(self.kubectl("get", "gpujobs", "-n", self.namespace, "-o", "json"))["items"]
        return {one["metadata"]["name"]: one for one in found}

    def job(self, name: str) -> Object:
        return self.api.get(GPU_JOBS, name, self.namespace)

    def record(self, name: str) -> Object:
        found: Object = json.loads(self.job(name)["status"]["record"])
        return found

    def pods(self, name: str) -> list[Object]:
        id_ = self.record(name)["id"]
        return self.api.list(PODS, self.namespace, labels=f"grus.dev/job={id_}")[0]

    def in_phase(self, phase: str, queue: str = "") -> set[str]:
        return {
            name
            for name, one in self.jobs().items()
            if one["status"]["phase"] == phase and one["spec"].get("queue", "default").startswith(queue)
        }

    def running(self, queue: str = "") -> set[str]:
        return self.in_phase("running", queue)

    def paused(self, queue: str = "") -> set[str]:
        return self.in_phase("paused", queue)

    def waiting(self, queue: str = "") -> set[str]:
        return self.in_phase("pending", queue) | self.paused(queue)

    def held(self, queue: str) -> int:
        found = [one for one in self.jobs().values() if one["spec"].get("queue") == queue]
        return sum(int(one["status"].get("gpus", "0")) for one in found)

    def events(self, kind: str) -> list[str]:
        """Names of jobs, in the order in which this happened to them."""
        names = {json.loads(one["status"]["record"])["id"]: name for name, one in self.jobs().items()}
        log = self.controller.store.events(limit=100_000)
        return [names[event.job] for event in log if event.kind == kind and event.job in names]

    def starts(self, queue: str = "") -> list[str]:
        return [name for name in self.events("starting") if name.startswith(queue)]

    def pauses(self) -> list[str]:
        return self.events("pausing")

    # -------------------------------------------------------------------------------------- settling

    def settle(self) -> None:
        """Until the controller knows all that there is, and two looks in a row find nothing that moves."""
        until(self._rests, "nothing moves any more")

    def _rests(self) -> bool:
        before = self._state()
        if before is None or not self._loop_is_current():
            return False
        first = self.controller.loop.pulse.passes
        until(lambda: self._passes() > first + 1, "the loop passes")  # one pass may have begun before
        if self._has_former_workers():
            return False
        return self._state() == before and self._loop_is_current() and self._stores_all()

    def _passes(self) -> int:
        self.controller.loop.wake()
        return self.controller.loop.pulse.passes

    def _loop_is_current(self) -> bool:
        """Whether the loop has received every version of a job that the store has, and decided on it."""
        loop = self.controller.loop
        with loop.snapshot() as snapshot:
            stored = self.controller.store.jobs(phases=[phase for phase in Phase if phase not in TERMINAL])
            known = {job.id: found.version for job in stored if (found := snapshot.job(job.id))}
            current = all(known.get(job.id, 0) >= job.version for job in stored if job.spec.has_workers)
            return current and not (loop.picture.undecided or loop.picture.touched)

    def _stores_all(self) -> bool:
        """Whether the store lists every job whose object says that it has not ended."""
        waits = {Phase.PENDING, Phase.PAUSED, Phase.RUNNING}
        live = {name for name, one in self.jobs().items() if (one.get("status") or {}).get("phase") in waits}
        stored = {job.spec.name for job in self.controller.store.jobs() if job.phase not in TERMINAL}
        return live <= stored

    def _has_former_workers(self) -> bool:
        """Whether a running job has pods of workers that are no members any more: a pod goes when its log was
        read, which is tried again after seconds.
        """
        return any(
            len(self.api.list(PODS, self.namespace, labels=f"{JOB}={job.id}")[0]) > len(members(job))
            for job in self.controller.store.jobs(phases=[Phase.RUNNING])
        )

    def _report(self) -> str:
        """Describe what a failed test needs to be understood: jobs as objects, as stored and as decided."""
        lines = [f"{name}: {json.dumps(one.get('status'))[:2000]}" for name, one in self.jobs().items()]
        lines += [f"stored {job.id} {job.phase} v{job.version}" for job in self.controller.store.jobs()]
        with self.controller.loop.snapshot() as snapshot:
            known = [snapshot.job(job.id) for job in self.controller.store.jobs()]
        lines += [f"decided on {job.id} {job.phase} v{job.version}" for job in known if job]
        lines += [str(node) for node in self.controller.loop.picture.nodes]
        return "\n".join([*lines, f"health {self.controller.loop.pulse}"])

    def _state(self) -> list[tuple[str, str]] | None:
        """Every object with its version; None if one of them is on its way, or unknown to the controller."""
        found, _ = self.api.list(GPU_JOBS, self.namespace)
        pods, _ = self.api.list(PODS, self.namespace)
        for one in found:
            phase = (one.get("status") or {}).get("phase")
            known = self.controller.jobs_store.objects.get(one["metadata"]["name"], self.namespace)
            same = (
                known is not None
                and known["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]
            )
            if not same or phase not in (*RESTING, "refused") or "deletionTimestamp" in one["metadata"]:
                return None
        if any("deletionTimestamp" in pod["metadata"] for pod in pods):
            return None
        return sorted((one["metadata"]["uid"], one["metadata"]["resourceVersion"]) for one in (*found, *pods))

    def _known(self, *queues: str) -> bool:
        return set(queues) <= {queue.name for queue in self.controller.loop.picture.queues}

    def _recorded(self, queue: str) -> int:
        return sum(job.spec.queue == queue for job in self.controller.store.jobs())
