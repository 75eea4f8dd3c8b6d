"""A real API server full of pretend nodes, for measuring schedulers: who binds which pod when.

Nobody runs the pods: a pod counts as placed when a watch shows it with a node. Schedulers are processes of
their own, started by the benchmark and ended by their pid.
"""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import wait_for
from grus.kubernetes.client.api import Api, Forbidden, Object, Unreachable
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import NAMESPACES, NODES, PODS
from tools.kubernetes.build import built

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = 16
GPU = "nvidia.com/gpu"
RAISED = 5000
"""Requests a second that a scheduler may make: more than the API server can take."""
GPUS = 8


@dataclass(frozen=True, slots=True)
class Pretend:
    """A cluster of nodes that exist in the API only."""

    kubeconfig: Path
    api: Api

    def add_nodes(self, count: int) -> None:
        """Ready, and without the taint that new nodes get until a controller has seen them."""
        names = [f"node-{number:04}" for number in range(count)]
        many(lambda name: self.api.create(NODES, a_node(name)), names)
        many(lambda name: self.api.patch(NODES, name, {"spec": {"taints": None}}), names)

    def new_namespace(self) -> str:
        """In which pods can be made: the controllers have given it a service account."""
        name = f"bench-{uuid.uuid4().hex[:6]}"
        self.api.create(NAMESPACES, {"metadata": {"name": name}})

        def accepted() -> bool:
            try:
                self.api.patient(0).create(PODS, a_pod("trial", "nobody", {}), name, dry_run=True)
            except (Forbidden, Unreachable):  # no account yet; no token yet
                return False
            return True

        wait_for(accepted, 60, f"pods to be accepted in {name}")
        return name

    def add_pods(self, namespace: str, count: int, scheduler: str, labels: Mapping[str, str]) -> None:
        names = [f"pod-{number:05}" for number in range(count)]
        many(lambda name: self.api.create(PODS, a_pod(name, scheduler, labels), namespace), names)

    def clear(self, namespace: str) -> None:
        """Remove all its pods at once; no kubelet would do it."""
        path = PODS.path(namespace)
        self.api.patient(0, answer=300).raw("DELETE", path, {"gracePeriodSeconds": 0}, repeatable=False)
        wait_for(lambda: not self.api.list(PODS, namespace, limit=1)[0], 300, "the pods to go", every=0.5)

    @contextmanager
    def watched(self, namespace: str) -> Iterator["Placed"]:
        """Which pods of a namespace have a node, and since when."""
        placed = Placed()
        fields = "spec.nodeName!="
        with Reflector(self.api, PODS, namespace=namespace, fields=fields, on_change=placed.hear) as seen:
            if not seen.wait_synced(60):
                raise TimeoutError("the API server did not list its pods")
            yield placed


@dataclass(slots=True)
class Placed:
    """What a watch has shown so far; times are of `time.monotonic`."""

    at: dict[str, float] = field(default_factory=dict)
    job: dict[str, str] = field(default_factory=dict)
    """The GpuJob that a pod belongs to, by pod."""
    nodes: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, what: str, pod: Object) -> None:
        if what != "ADDED":
            return
        now, metadata = time.monotonic(), pod["metadata"]
        owner = next(iter(metadata.get("ownerReferences") or ()), {"name": ""})
        with self.lock:
            self.at[metadata["name"]] = now
            self.job[metadata["name"]] = owner["name"]
            self.nodes[pod["spec"]["nodeName"]] += 1

    def wait(self, count: int, patience: float, alive: Callable[[], bool]) -> None:
        def there() -> bool:
            if not alive():
                raise RuntimeError("the scheduler has ended")
            return len(self.at) >= count

        wait_for(there, patience, f"{count} pods to be placed ({len(self.at)} are)")

    def overfull(self) -> int:
        """Nodes with more pods of one GPU than they have GPUs."""
        return sum(count > GPUS for count in self.nodes.values())


@contextmanager
def pretend_cluster(name: str, nodes: int) -> Iterator[Pretend]:
    try:
        kubeconfig = Path(tool("up", "--name", name, "--without", "kube-scheduler"))
        api = Api.connect(kubeconfig, connections=CLIENTS, patience=60)
        cluster = Pretend(kubeconfig, api)
        cluster.add_nodes(nodes)
        yield cluster
        api.close()
    finally:
        tool("down", "--name", name)


def tool(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tools.kubernetes", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


@contextmanager
def process(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=ROOT
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def kube_scheduler(kubeconfig: Path, per_second: int | None) -> list[str]:
    """The command; None: at its default limit of requests."""
    command = [f"{built()}/kube-scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
    command += ["--port=0", "--secure-port=0"]
    limit = [f"--kube-api-qps={per_second}", f"--kube-api-burst={per_second}"] if per_second else []
    return command + limit


def many(call: Callable[[str], object], values: Iterable[str]) -> None:
    """From several threads; raises the first failure."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in pool.map(call, values):
            pass


def a_node(name: str) -> Object:
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "A100",
        "nvidia.com/gpu.memory": "81920",
    }
    ready = {"type": "Ready", "status": "True", "reason": "Pretend"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": has, "allocatable": has, "conditions": [ready]},
    }


def a_pod(name: str, scheduler: str, labels: Mapping[str, str]) -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"schedulerName": scheduler, "containers": [container], "restartPolicy": "Never"},
    }


def peak_memory(pid: int) -> int:
    """Bytes of memory that a process has had at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def cpu_time(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
