"""Objects of a cluster as its API server gives them, with what a test does not care about left out."""

from typing import Any

from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import ATTEMPT, DEVICES, JOB, VOLUME, WORKER

GPU_RESOURCE = "nvidia.com/gpu"


def a_node(name: str = "n1", gpus: int = 4, **changes: Any) -> Object:
    """Ready, with 8 cores and 64 GiB; changed by labels, taints, allocatable, ready, unschedulable."""
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU_RESOURCE: str(gpus)}
    return {
        "metadata": {"name": name, "labels": changes.get("labels", {}), "resourceVersion": "1"},
        "spec": {"taints": changes.get("taints", []), "unschedulable": changes.get("unschedulable", False)},
        "status": {
            "capacity": amounts,
            "allocatable": {**amounts, **changes.get("allocatable", {})},
            "conditions": [{"type": "Ready", "status": str(changes.get("ready", True))}],
        },
    }


def a_pod(
    name: str = "p1",
    *,
    node: str = "n1",
    gpus: int = 0,
    requests: dict[str, str] | None = None,
    scheduler: str = "default-scheduler",
    notes: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **status: Any,
) -> Object:
    amounts = {**(requests or {}), **({GPU_RESOURCE: str(gpus)} if gpus else {})}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": notes or {},
            "labels": labels or {},
        },
        "spec": {
            "nodeName": node,
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"requests": amounts}}],
        },
        "status": {"phase": "Running", **status},
    }


def a_worker_pod(worker: str = "j1.1.main.0.1", *, devices: str = "n1/0", **changes: Any) -> Object:
    """A pod as the engine makes it; `state` is that of its container, `first` that of the one before it."""
    state, first = changes.pop("state", None), changes.pop("first", None)
    notes = {WORKER: worker, ATTEMPT: "1", DEVICES: devices, **changes.pop("notes", {})}
    labels = {JOB: worker.partition(".")[0]}
    if state is not None:
        changes["containerStatuses"] = [{"name": "main", "state": state}]
    if first is not None:
        changes["initContainerStatuses"] = [{"name": "prepare", "state": first}]
    pod = a_pod(worker.replace(".", "-"), scheduler="grus", notes=notes, labels=labels, **changes)
    pod["spec"]["volumes"] = [{"name": VOLUME, "emptyDir": {}}]
    return pod


def terminated(code: int = 0, **more: Any) -> Object:
    """The state of a container that ended after two seconds."""
    times = {"startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:00:12Z"}
    return {"terminated": {"exitCode": code, **times, **more}}
