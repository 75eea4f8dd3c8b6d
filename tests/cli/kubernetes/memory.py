"""A cluster in memory, as far as the command asks of one: objects by kind, and what pods have printed."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from grus.kubernetes.client.errors import Exists, Forbidden, Missing
from grus.kubernetes.client.resource_kinds import GPU_JOBS, GPU_QUEUES, NODES, PODS, Object, ResourceKind
from grus.kubernetes.names import JOB, WORKER
from grus.model.interfaces import Event
from grus.model.jobs import Job, Phase
from grus.store.codec import JOB as JOBS
from grus.store.kubernetes.job_status_codec import recorded
from tests.store.builders import a_job

Key = tuple[ResourceKind, str, str]
TEAM = "vision-team"
_numbers = count(1)


class Memory:
    """Takes the place of `Api`."""

    def __init__(self) -> None:
        self.server = "https://cluster"
        self.namespace = TEAM
        self.objects: dict[Key, Object] = {}
        self.logs: dict[str, bytes] = {}
        self.secret: set[ResourceKind] = set()
        """Kinds that this user may not list in all namespaces."""
        self.on_create: Any = lambda item: None
        """What a controller makes of a new object."""

    def close(self) -> None:
        """Nothing to let go of."""

    def put(self, kind: ResourceKind, item: Object) -> Object:
        metadata = item["metadata"]
        metadata.setdefault("uid", f"{next(_numbers):032x}")
        metadata["resourceVersion"] = str(next(_numbers))
        self.objects[kind, metadata.get("namespace", ""), metadata["name"]] = item
        return item

    def get(self, kind: ResourceKind, name: str, namespace: str = "") -> Object:
        try:
            return copy.deepcopy(self.objects[kind, namespace, name])
        except KeyError:
            raise Missing(404, "NotFound", f"{kind.plural} {name} not found") from None

    def list(self, kind: ResourceKind, namespace: str = "", *, labels: str = "") -> tuple[list[Object], str]:
        if kind in self.secret and not namespace:
            raise Forbidden(403, "Forbidden", f"cannot list {kind.plural}")
        name, _, value = labels.partition("=")
        found = [
            copy.deepcopy(item)
            for (one, where, _), item in self.objects.items()
            if one == kind
            and namespace in ("", where)
            and (not labels or (item["metadata"].get("labels") or {}).get(name) == value)
        ]
        return found, "1"

    def create(self, kind: ResourceKind, body: Object, namespace: str = "") -> Object:
        item = copy.deepcopy(body)
        if kind.namespaced:
            item["metadata"].setdefault("namespace", namespace)
        if (kind, item["metadata"].get("namespace", ""), item["metadata"]["name"]) in self.objects:
            raise Exists(409, "AlreadyExists", "it is there")
        made = self.put(kind, item)
        self.on_create(made)
        return copy.deepcopy(made)

    def patch(
        self, kind: ResourceKind, name: str, body: Object, namespace: str = "", **how: object
    ) -> Object:
        self.get(kind, name, namespace)
        item = self.objects[kind, namespace, name]
        for part, value in body.items():
            item.setdefault(part, {}).update({key: one for key, one in value.items() if key != "uid"})
        return copy.deepcopy(item)

    def delete(self, kind: ResourceKind, name: str, namespace: str = "", **guards: object) -> None:
        if (kind, namespace, name) not in self.objects:
            raise Missing(404, "NotFound", f"{name} not found")
        del self.objects[kind, namespace, name]

    @contextmanager
    def log(self, pod: str, namespace: str, container: str = "", **how: Any) -> Iterator[Iterator[bytes]]:
        data = self.logs[pod]
        yield iter([data[: how.get("limit_bytes") or len(data)]])


def with_job(api: Memory, name: str = "resnet", *, namespace: str = TEAM, **given: Any) -> Job:
    """A job on record."""
    made = a_job(f"j{next(_numbers):010}", name=name, user=namespace, phase=given.pop("phase", Phase.PENDING))
    job = replace(made, version=1, **given)
    before: Object = {"metadata": {"name": name, "namespace": namespace}, "spec": {"run": "python train.py"}}
    api.put(GPU_JOBS, before)
    event = Event(at=1000.0, kind="submitted", text=f"{name} was submitted", job=job.id)
    record(api, name, namespace, job, [(1, event)])
    return job


def record(api: Memory, name: str, namespace: str, job: Job, events: Any = ()) -> None:
    item = api.objects[GPU_JOBS, namespace, name]
    body = JOBS.encode(job)
    item["status"] = recorded(item, job, body, events, epoch_now=1, now=1000.0)["status"]


def with_worker(api: Memory, job: Job, worker: str, log: bytes = b"", phase: str = "Running") -> None:
    """`worker` is the end of its id: attempt, role, index, born."""
    name = f"pod-{job.id}-{worker.replace('.', '-')}"
    metadata = {
        "name": name,
        "namespace": job.user,
        "labels": {JOB: job.id},
        "annotations": {WORKER: f"{job.id}.{worker}"},
    }
    spec = {"containers": [{"name": "main"}], "nodeName": "node-1"}
    api.put(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})
    api.logs[name] = log


def with_node(api: Memory, name: str, gpus: int) -> None:
    amounts = {"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.put(NODES, {"metadata": {"name": name}, "spec": {}, "status": status})


def with_queue(api: Memory, name: str, **spec: Any) -> None:
    api.put(GPU_QUEUES, {"metadata": {"name": name}, "spec": spec})
