"""Pod of a worker, made from the control plane's specification. Pure: the same worker gets the same pod.

Layers, the later ones on top: Grus's defaults, the cluster's template, the job's pod overrides, and the
fields that only Grus may set (where and what it runs, how it is found, how many GPUs it gets).
"""

import hashlib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from grus.api.inputs import pod_field_policy
from grus.api.inputs.pod_template import merged, of_text
from grus.api.parsing.validation_errors import field_name
from grus.engines.kubernetes.nodes import SCHEDULER, Rules
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.api_objects.secret_names import secret_ref
from grus.kubernetes.bundle.code_bundles import volume as bundle_volume
from grus.kubernetes.bundle.unpacking import PREFIX as BUNDLE
from grus.kubernetes.bundle.unpacking import InvalidArchive
from grus.kubernetes.client.resource_kinds import GPU_JOBS, Object
from grus.kubernetes.names import (
    ATTEMPT,
    BELL_FILE,
    BUNDLE_FOLDER,
    BUNDLE_VARIABLE,
    BUNDLE_VOLUME,
    CODE_FOLDER,
    CODE_VOLUME,
    CONTROL,
    CONTROL_FILE,
    DEVICES,
    EPOCH,
    FOLDER,
    GPU_MEMORY,
    JOB,
    REPORT_FILE,
    VOLUME,
    WORKER,
)
from grus.model.identifiers import WorkerId
from grus.model.interfaces import WorkerSpec
from grus.model.resources import GPU

MAIN = "main"
PREPARE = "prepare"
ROLE = "grus.dev/role"
LONGEST_NAME = 63
"""Length limit of a label in a domain name: a pod's name is its host name too."""
SHARED_MEMORY = "grus-shm"
NO_GPU = "void"
"""Value that keeps NVIDIA's runtime from showing all GPUs to a container that was given none."""
_TAIL = 5
NON_ROOT, NOBODY = "non-root", "nobody"
"""Users of a worker where root is forbidden: the cluster's choice, or one that no file belongs to."""
_ANY_USER = 65532
"""User id of a worker where root is forbidden and the image names no user."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_HARDENED: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_OVERRULED = ("nodeSelector", "affinity", "topologySpreadConstraints")
"""Fields that are dropped because the node is decided already.

A kubelet would reject a pod that asks for another node.
"""


class CannotStart(Exception):
    """A worker that cannot be started at all; the text is for people."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings that all pods of this engine share."""

    image: str
    """Grus's own: for the container that prepares a worker, and for jobs that name none."""
    epoch: int
    rules: Rules = field(default_factory=Rules)
    template: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of one GPU that a worker gets."""

    uuid: str
    memory: int
    """Bytes that it may use."""
    of: int
    """Bytes of the whole GPU."""


def pod(
    worker: WorkerSpec,
    home: Home,
    recipe: Recipe,
    *,
    slice_: Slice | None = None,
    control: str | None = None,
    user: str = "",
) -> Object:
    """Return the pod to create. Raises CannotStart. `user` is NON_ROOT or NOBODY where root is forbidden."""
    if not worker.argv or not worker.argv[0]:
        raise CannotStart("there is no command to run")
    suggested = _suggested(worker, recipe, user)
    wished = merged(merged(suggested, recipe.template), of_text(worker.pod))
    spec = {name: value for name, value in wished["spec"].items() if name not in _OVERRULED}
    first, *others = (_without_gpus(one, recipe.rules.resource) for one in spec["containers"])
    spec |= {
        "containers": [merged(first, _main(worker, home, recipe, slice_)), *others],
        "initContainers": [_blind(one, recipe.rules.resource) for one in spec["initContainers"]],
        "nodeName": worker.node,
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "shareProcessNamespace": True,  # so that no program is process 1, which ignores SIGTERM by default
        "terminationGracePeriodSeconds": seconds(worker.grace),
        "hostname": pod_name(home, worker.id),
        "subdomain": service_name(worker),
    }
    return {"metadata": _metadata(worker, home, recipe, wished, slice_, control), "spec": spec}


def pod_name(home: Home, worker: WorkerId) -> str:
    """Return a name made of the job's name and the worker's id; a worker's name never changes.

    It contains the end of the job's id, because an earlier job may have had the same name.
    """
    job, _, rest = worker.partition(".")
    tail = f"-{job[-_TAIL:]}-{rest.replace('.', '-')}" if rest else f"-{job}"
    name = home.name + tail
    if len(name) <= LONGEST_NAME and _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(f"{home.name} {worker}".encode()).hexdigest()[:10]
    kept = re.sub(r"[^a-z0-9-]+", "-", home.name.lower())[: LONGEST_NAME - len(digest) - 3].strip("-")
    return f"{kept or 'w'}-{digest}"


def service_name(worker: WorkerSpec) -> str:
    return f"grus-{worker.job}"


def service(worker: WorkerSpec, home: Home) -> Object:
    """Return the service by which the workers of a job
    find each other by name, whether they are ready or not.
    """
    return {
        "metadata": {
            "name": service_name(worker),
            "namespace": home.namespace,
            "labels": {JOB: worker.job},
            "ownerReferences": _owners(home),
        },
        "spec": {
            "clusterIP": "None",
            "selector": {JOB: worker.job},
            "publishNotReadyAddresses": True,
        },
    }


def wants_service(worker: WorkerSpec) -> bool:
    """Return whether the worker has peers."""
    return worker.first is not None and dict(worker.env).get("WORLD_SIZE", "1") != "1"


def seconds(grace: float) -> int:
    """Whole ones, for Kubernetes knows no others; never 0, which would mean: forget it, wherever it is."""
    return max(1, math.ceil(grace))


def _metadata(
    worker: WorkerSpec,
    home: Home,
    recipe: Recipe,
    wished: Mapping[str, Any],
    slice_: Slice | None,
    control: str | None,
) -> Object:
    theirs = wished.get("metadata") or {}
    notes = {
        WORKER: worker.id,
        ATTEMPT: str(worker.attempt),
        EPOCH: str(recipe.epoch),
        DEVICES: ",".join(worker.devices),
    }
    if slice_ is not None or worker.gpu_memory:
        notes[GPU_MEMORY] = str(slice_.memory if slice_ is not None else worker.gpu_memory)
    if control is not None:
        notes[CONTROL] = control
    labels: dict[str, str] = {JOB: worker.job}
    role = worker.id.split(".")[2:3]
    if role:
        labels[ROLE] = role[0]
    return {
        "name": pod_name(home, worker.id),
        "namespace": home.namespace,
        "labels": {**(theirs.get("labels") or {}), **labels},
        "annotations": {**(theirs.get("annotations") or {}), **notes},
        "finalizers": [WORKER],
        "ownerReferences": _owners(home),
    }


def owner(home: Home) -> Object:
    """Return the owner reference of objects that are deleted with the job."""
    return {
        "apiVersion": GPU_JOBS.api_version,
        "kind": GPU_JOBS.name,
        "name": home.name,
        "uid": home.uid,
    }


def _owners(home: Home) -> list[Object]:
    return [{**owner(home), "controller": True}] if home.uid else []


def require_allowed(worker: WorkerSpec, allowed: Collection[str]) -> None:
    """The last barrier: a record may be older than the allow-list. Raises CannotStart."""
    if broken := pod_field_policy.refused(of_text(worker.pod), allowed):
        raise CannotStart("; ".join(f"{field_name(('pod', *one.at))} {one.rule}" for one in broken))


def _suggested(worker: WorkerSpec, recipe: Recipe, user: str) -> Object:
    """Return the part of the pod that a job and a cluster may change."""
    ids: Object = {"runAsNonRoot": True} if user else {}
    if user == NOBODY:
        ids["runAsUser"] = _ANY_USER
    environment: list[Object] = [{"name": name, "value": _literal(value)} for name, value in worker.env]
    environment += _secrets(worker)
    volumes, mounts, first_mounts, first_env = _code(worker)
    talk = {"name": VOLUME, "mountPath": FOLDER}
    return {
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, **ids},
            "tolerations": recipe.rules.all_tolerations(),
            "initContainers": [
                {
                    "name": PREPARE,
                    "image": recipe.image,
                    "command": ["python", "-m", "grus.kubernetes.prepare"],
                    "env": first_env,
                    "securityContext": _HARDENED,
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [talk, *first_mounts],
                }
            ],
            "containers": [
                {
                    "name": MAIN,
                    "image": worker.image or recipe.image,
                    "env": environment,
                    "securityContext": _HARDENED,
                    "volumeMounts": [talk, {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}, *mounts],  # noqa: S108 - where libraries look for it
                }
            ],
            "volumes": [
                {"name": VOLUME, "emptyDir": {}},
                # The 64 MB that a container has by itself are too little for loaders of data.
                {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory"}},
                *volumes,
            ],
        }
    }


def _code(worker: WorkerSpec) -> tuple[list[Object], list[Object], list[Object], list[Object]]:
    """Volumes; mounts of the worker; mounts and variables of the container that unpacks the code."""
    if not worker.workdir.startswith(BUNDLE):
        return [], [], [], []
    try:
        pieces = bundle_volume(worker.workdir)
    except InvalidArchive as why:
        raise CannotStart(f"{worker.workdir}: {why}") from why
    code = {"name": CODE_VOLUME, "mountPath": CODE_FOLDER}
    return (
        [pieces, {"name": CODE_VOLUME, "emptyDir": {}}],
        [code],
        [code, {"name": BUNDLE_VOLUME, "mountPath": BUNDLE_FOLDER, "readOnly": True}],
        [{"name": BUNDLE_VARIABLE, "value": worker.workdir}],
    )


def _main(worker: WorkerSpec, home: Home, recipe: Recipe, slice_: Slice | None) -> Object:
    """Return the fields of the worker's container that only Grus may set."""
    folder = CODE_FOLDER if worker.workdir.startswith(BUNDLE) else worker.workdir
    return {
        "command": [_literal(word) for word in worker.argv],
        "args": [],
        "env": [*_variables(worker, home, slice_)],
        "resources": _resources(worker, recipe.rules.resource),
        **({"workingDir": folder} if folder else {}),
    }


def _variables(worker: WorkerSpec, home: Home, slice_: Slice | None) -> list[Object]:
    known = dict(worker.env)
    found = {
        "GRUS_CONTROL": f"{FOLDER}/{CONTROL_FILE}",
        "GRUS_REPORT": f"{FOLDER}/{REPORT_FILE}",
        "GRUS_BELL": f"{FOLDER}/{BELL_FILE}",
        **_gpu_variables(worker, slice_),
    }
    if "LOCAL_RANK" in known:
        found["LOCAL_RANK"] = "0"  # a pod is a machine of its own: it sees its own GPUs only
    if worker.first is not None and "MASTER_ADDR" in known:
        first = pod_name(home, worker.first)
        found["MASTER_ADDR"] = first if worker.first == worker.id else f"{first}.{service_name(worker)}"
    variables: list[Object] = [{"name": name, "value": value} for name, value in found.items()]
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [*variables, {"name": "GRUS_HOST", "valueFrom": address}]


def _secrets(worker: WorkerSpec) -> list[Object]:
    """Return variables whose values the kubelet reads from
    Secrets of Grus's own name in the job's namespace.
    """
    return [{"name": variable, "valueFrom": secret_ref(secret)} for variable, secret in worker.secrets]


def _gpu_variables(worker: WorkerSpec, slice_: Slice | None) -> dict[str, str]:
    if slice_ is not None:
        part = min(1.0, slice_.memory / slice_.of) if slice_.of else 1.0
        return {
            "NVIDIA_VISIBLE_DEVICES": slice_.uuid,
            "CUDA_VISIBLE_DEVICES": slice_.uuid,
            "GRUS_GPU_MEMORY_FRACTION": f"{part:.6f}",
        }
    if not worker.devices:
        return {"NVIDIA_VISIBLE_DEVICES": NO_GPU, "CUDA_VISIBLE_DEVICES": ""}
    # The kubelet chooses which; inside the container they count from 0.
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(worker.devices))),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def sliced(worker: WorkerSpec) -> bool:
    return bool(worker.devices) and 0 < worker.share < GPU


def _resources(worker: WorkerSpec, resource: str) -> Object:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    if worker.devices and not sliced(worker):
        limits[resource] = requests[resource] = str(len(worker.devices))
    if worker.memory:
        limits["memory"] = requests["memory"] = str(worker.memory)
    if worker.cpu:
        requests["cpu"] = f"{worker.cpu}m"
    return {"limits": limits, "requests": requests}


def _without_gpus(container: Mapping[str, Any], resource: str) -> Object:
    """Return the container without its own GPU requests, to the kubelet or to NVIDIA's runtime.

    A job must not take GPUs that it was not allocated.
    """
    resources = {
        part: {name: value for name, value in amounts.items() if name != resource}
        for part, amounts in (container.get("resources") or {}).items()
    }
    variables = [one for one in container.get("env") or () if one.get("name") != "NVIDIA_VISIBLE_DEVICES"]
    return {**container, "resources": resources, "env": variables}


def _blind(container: Mapping[str, Any], resource: str) -> Object:
    """Return a container that sees no GPU: images for CUDA request all of them from NVIDIA's runtime."""
    found = _without_gpus(container, resource)
    return {**found, "env": [*found["env"], {"name": "NVIDIA_VISIBLE_DEVICES", "value": NO_GPU}]}


def _literal(text: str) -> str:
    """Escape the text, so that the kubelet does not expand `$(…)` or `$$`."""
    return text.replace("$", "$$")
