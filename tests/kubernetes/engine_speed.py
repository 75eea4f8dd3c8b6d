"""How fast the Kubernetes engine starts and removes workers: `python -m tests.kubernetes.engine_speed 3200`.

On nodes that are objects only, so that what is measured is the engine and the API server. One JSON line.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from grus.engines.kubernetes.engine import KubernetesEngine
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import NAMESPACES, NODES, PODS
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState
from grus.model.resources import GPU
from tests.kubernetes.clusters import shared, until

GANG = 16
GPUS = 8
NAMESPACE = "speed"


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3200
    with shared("speed", "--without", "kube-scheduler") as cluster, tempfile.TemporaryDirectory() as folder:
        api = Api.connect(cluster.kubeconfig, connections=32)
        prepare(api, -(-count // GPUS))
        engine = KubernetesEngine(
            api,
            where=lambda job: Home(NAMESPACE, job),
            image="grus:1",
            logs=Path(folder),
            system=NAMESPACE,
            lost_after=0.0,
            leadership=None,
        )
        engine.open(1)
        engine._now().fence.check = lambda: None  # type: ignore[method-assign]  # leaders ask no API server
        figures = measure(api, engine, count)
        engine.close()
        api.close()
    print(json.dumps(figures))
    return 0


def prepare(api: Api, nodes: int) -> None:
    api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Pretend"}],
    }
    for number in range(nodes):
        api.create(NODES, {"metadata": {"name": f"n{number}"}})
        api.patch(NODES, f"n{number}", {"status": status}, part="status")


def measure(api: Api, engine: KubernetesEngine, count: int) -> dict[str, float]:
    workers = [a_worker(number) for number in range(count)]
    begun, cpu = time.monotonic(), time.process_time()
    for worker in workers:
        engine.start(worker)
    handed = time.monotonic() - begun
    records = engine._now().watcher.records
    started = took(lambda: all(record.pod is not None for record in records.values()), begun)
    cpu = time.process_time() - cpu
    looked = time.monotonic()
    assert len(engine.nodes()) == -(-count // GPUS)
    looked = time.monotonic() - looked
    for pod in api.list(PODS, NAMESPACE)[0]:  # as by a power cut, so that no kubelet is missed
        name = pod["spec"]["nodeName"]
        if any(node.id == name for node in engine.nodes()):
            api.delete(NODES, name)
            until(lambda name=name: all(node.id != name for node in engine.nodes()), "seen")  # type: ignore[misc]  # a default
    until(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()), "all have ended")
    begun = time.monotonic()
    for worker in workers:
        engine.forget(worker.id)
    removed = took(lambda: not engine._now().watcher.forgotten, begun)
    return {
        "workers": count,
        "handed_s": round(handed, 2),
        "started_s": round(started, 2),
        "starts_per_s": round(count / started),
        "cpu_ms_per_start": round(1000 * cpu / count, 2),
        "pool_ms": round(1000 * looked, 1),
        "removed_s": round(removed, 2),
    }


def took(done: Callable[[], bool], begun: float) -> float:
    until(done, "done")
    return time.monotonic() - begun


def a_worker(number: int) -> WorkerSpec:
    """One of a gang of sixteen, with a GPU of its own."""
    job, index = divmod(number, GANG)
    node = f"n{number // GPUS}"
    return WorkerSpec(
        id=WorkerId(f"j{job:010}.1.main.{index}.1"),
        job=JobId(f"j{job:010}"),
        attempt=1,
        node=NodeId(node),
        argv=("python", "train.py"),
        env=(("WORLD_SIZE", str(GANG)), ("RANK", str(index)), ("MASTER_ADDR", "127.0.0.1")),
        workdir="",
        devices=(DeviceId(f"{node}/{number % GPUS}"),),
        share=GPU,
        first=WorkerId(f"j{job:010}.1.main.0.1"),
    )


if __name__ == "__main__":
    sys.exit(main())
