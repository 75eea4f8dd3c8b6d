"""Builders of the objects that people apply, with what a test does not care about filled in."""

from typing import Any

from grus.kubernetes.client.resource_kinds import GPU_JOBS, GPU_QUEUES, Object


def a_gpu_job(name: str = "train", namespace: str = "team", **spec: Any) -> Object:
    """As an API server gives it: with a uid, a generation and a time."""
    return {
        "apiVersion": GPU_JOBS.api_version,
        "kind": GPU_JOBS.name,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "6f1c2b1e-0d5a-4c39-9f1e-2a7d4b8c9e10",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"run": "python train.py", **spec},
    }


def a_gpu_queue(name: str, *, accepted: bool = False, **spec: Any) -> Object:
    found: Object = {
        "apiVersion": GPU_QUEUES.api_version,
        "kind": GPU_QUEUES.name,
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"},
        "spec": spec,
    }
    if accepted:
        found["status"] = {"accepted": spec}
    return found


def a_plain_pod(name: str = "pod", *, gpus: int = 1, **spec: Any) -> Object:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": "0f1c2b1e-0d5a-4c39-9f1e-2a7d4b8c9e11",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {},
        },
        "spec": {
            "schedulerName": "grus",
            "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
            **spec,
        },
    }
