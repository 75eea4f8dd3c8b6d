"""How fast pods get their nodes on a real API server with 1,000 pretend nodes of 8 GPUs.

    python -m benchmarks.kubernetes [--quick]

(a) 4,000 plain one-GPU pods, made beforehand, in a fresh namespace for each: Grus; the kube-scheduler of
the same build, both with as good as no limit on their requests; the kube-scheduler as it comes (with fewer
pods: it places 50 a second). `pods_per_s` runs from the moment the controller begins to lead, so reading the
cluster and deciding are in it; that of the kube-scheduler from the first pod that it has placed. `start_s` is
from the start of the process to the first placed pod.

(b) 200 GpuJobs of 16 workers with one GPU each: from the first creation to the last pod that has its node. A
gang of which some pods have a node and others do not, at the end, is partial.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kubernetes_cluster import (
    RAISED,
    Placed,
    Pretend,
    cpu_time,
    kube_scheduler,
    many,
    peak_memory,
    pretend_cluster,
    process,
)
from benchmarks.machine import busy_share, facts, wait_for
from grus.kubernetes.client.api import Object
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import DEFINITIONS, GPU_JOBS, GPU_QUEUES, LEASES, NAMESPACES
from grus.kubernetes.install.custom_resources import definitions

SYSTEM = "grus-system"
QUEUE = "bench"
WORKERS = 16
PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    pods: int
    default_pods: int
    """For the kube-scheduler as it comes."""
    gangs: int


FULL = Size(nodes=1000, pods=4000, default_pods=1000, gangs=200)
QUICK = Size(nodes=100, pods=400, default_pods=200, gangs=20)


@dataclass(frozen=True, slots=True)
class Rate:
    per_s: float
    start_s: float
    """From the start of the process until the first pod has its node."""
    cpu_ms: float
    """Milliseconds of CPU that the scheduler used for each pod, its start included."""
    overfull: int


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--logs", type=Path, help="where the schedulers' logs are kept")
    words = parser.parse_args()
    size = QUICK if words.quick else FULL
    with tempfile.TemporaryDirectory(prefix="grus-bench-") as folder:
        logs = words.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        say(f"{size.nodes} nodes …")
        others = busy_share()
        with pretend_cluster("bench", size.nodes) as cluster:
            figures = measured(cluster, size, logs)
    print(json.dumps({**figures, "others_busy": round(others, 2), **facts()}))
    return 0


def measured(cluster: Pretend, size: Size, logs: Path) -> dict[str, object]:
    as_it_comes = kube_rate(cluster, size.default_pods, None, logs)
    theirs = kube_rate(cluster, size.pods, RAISED, logs)
    install(cluster)
    ours, plain_memory = grus_rate(cluster, size.pods, logs)
    gangs, gang_memory = grus_gangs(cluster, size.gangs, logs)
    return {
        "pods_per_s": round(ours.per_s, 1),
        "kube_scheduler_pods_per_s": round(theirs.per_s, 1),
        "ratio": round(ours.per_s / theirs.per_s, 2),
        "kube_scheduler_default_pods_per_s": round(as_it_comes.per_s, 1),
        "start_s": round(ours.start_s, 2),
        "kube_scheduler_start_s": round(theirs.start_s, 2),
        "cpu_ms_per_pod": round(ours.cpu_ms, 2),
        "kube_scheduler_cpu_ms_per_pod": round(theirs.cpu_ms, 2),
        "overfull_nodes": ours.overfull,
        **gangs,
        "memory_mb_pods": round(plain_memory / 1e6),
        "memory_mb_gangs": round(gang_memory / 1e6),
        "nodes": size.nodes,
        "pods": size.pods,
        "gangs": size.gangs,
    }


# ------------------------------------------------------------------------------------------- plain pods


def kube_rate(cluster: Pretend, pods: int, per_second: int | None, logs: Path) -> Rate:
    namespace = cluster.new_namespace()
    cluster.add_pods(namespace, pods, "default-scheduler", {})
    say(f"{pods} pods for the kube-scheduler …")
    with cluster.watched(namespace) as placed:
        began = time.monotonic()
        with process(kube_scheduler(cluster.kubeconfig, per_second), logs / "kube-scheduler.log") as running:
            placed.wait(pods, PATIENCE, lambda: running.poll() is None)
            used = cpu_time(running.pid)
        first, last = min(placed.at.values()), max(placed.at.values())
    cluster.clear(namespace)
    found = Rate((pods - 1) / (last - first), first - began, 1e3 * used / pods, placed.overfull())
    say(f"  {found.per_s:.1f} pods/s, {found.cpu_ms:.2f} ms of CPU each")
    return found


def grus_rate(cluster: Pretend, pods: int, logs: Path) -> tuple[Rate, int]:
    """And the controller's memory in bytes."""
    namespace = cluster.new_namespace()
    cluster.add_pods(namespace, pods, "grus", {"grus.dev/queue": QUEUE})
    say(f"{pods} pods for Grus …")
    with cluster.watched(namespace) as placed:
        began = time.monotonic()
        with controller(cluster, logs / "grus-pods.log") as (led, running):
            placed.wait(pods, PATIENCE, lambda: running.poll() is None)
            memory, used = peak_memory(running.pid), cpu_time(running.pid)
        first, last = min(placed.at.values()), max(placed.at.values())
    cluster.clear(namespace)
    found = Rate(pods / (last - led.at), first - began, 1e3 * used / pods, placed.overfull())
    say(f"  {found.per_s:.1f} pods/s, {found.cpu_ms:.2f} ms of CPU each")
    return found, memory


# ------------------------------------------------------------------------------------------------ gangs


def grus_gangs(cluster: Pretend, gangs: int, logs: Path) -> tuple[dict[str, object], int]:
    """Figures, and the controller's memory in bytes."""
    namespace = cluster.new_namespace()
    names = [f"gang-{number:03}" for number in range(gangs)]
    made: dict[str, float] = {}

    def make(name: str) -> None:
        made[name] = time.monotonic()
        cluster.api.create(GPU_JOBS, a_gang(name), namespace)

    say(f"{gangs} gangs of {WORKERS} …")
    log = logs / "grus-gangs.log"
    with cluster.watched(namespace) as placed, controller(cluster, log) as (_, running):
        wait_for(lambda: "ready: leading" in log.read_text(), 60, "the controller to be ready")
        many(make, names)
        placed.wait(gangs * WORKERS, PATIENCE, lambda: running.poll() is None)
        memory = peak_memory(running.pid)
    return gang_figures(placed, made), memory


def gang_figures(placed: Placed, made: dict[str, float]) -> dict[str, object]:
    took = [at - made[placed.job[pod]] for pod, at in placed.at.items()]
    sizes = Counter(placed.job.values())
    whole = max(placed.at.values()) - min(made.values())
    return {
        "gang_pods_per_s": round(len(placed.at) / whole, 1),
        "p50_bind_s": round(statistics.median(took), 2),
        "p99_bind_s": round(statistics.quantiles(took, n=100)[98], 2),
        "gangs_partial": sum(0 < sizes[name] != WORKERS for name in made),
        "gang_overfull_nodes": placed.overfull(),
    }


def a_gang(name: str) -> Object:
    spec = {
        "queue": QUEUE,
        "run": "true",
        "launch": "per-gpu",
        "resources": {"gpu": WORKERS},
        "image": "none",
    }
    return {"metadata": {"name": name}, "spec": spec}


# -------------------------------------------------------------------------------------- the controller


class Led:
    """When somebody began to lead."""

    def __init__(self) -> None:
        self.at = 0.0

    def hear(self, what: str, lease: Object) -> None:
        if what != "DELETED" and lease["spec"].get("holderIdentity") and not self.at:
            self.at = time.monotonic()


@contextmanager
def controller(cluster: Pretend, log: Path) -> Iterator[tuple[Led, "subprocess.Popen[bytes]"]]:
    """A controller as a process of its own, from its start on."""
    led = Led()
    with (
        tempfile.TemporaryDirectory(prefix="grus-bench-state-") as state,
        Reflector(cluster.api, LEASES, namespace=SYSTEM, on_change=led.hear),
    ):
        command = [sys.executable, "-m", "grus.operator", f"--kubeconfig={cluster.kubeconfig}"]
        with process([*command, f"--namespace={SYSTEM}", f"--state={state}"], log) as running:
            yield led, running


def install(cluster: Pretend) -> None:
    """The kinds, a namespace for the controller, and a queue that may take all."""
    for definition in definitions():
        cluster.api.create(DEFINITIONS, definition)
    cluster.api.create(NAMESPACES, {"metadata": {"name": SYSTEM}})
    wait_for(
        lambda: cluster.api.serves(GPU_QUEUES) and cluster.api.serves(GPU_JOBS), 60, "the kinds to be served"
    )
    cluster.api.create(GPU_QUEUES, {"metadata": {"name": QUEUE}, "spec": {"quota": 100_000}})


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
