"""The pod of a run, and what a pod's status says. Pure.

A pod has three folders: what it is to do (a ConfigMap), the bundle in pieces (ConfigMaps), and one of its own
to work in. The job's own `pod` is laid over it, as everywhere in Grus: volumes, tolerations, pull secrets.
"""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grus.api.inputs import pod_template as pods
from grus.compare.backends import staging
from grus.compare.workload import Workload
from grus.model.texts.units import parse_bytes

Object = dict[str, Any]

LABEL = "grus.dev/comparison"
"""Label on everything that a driver makes: the comparison's key."""
IN, PIECES, WORK = "/grus/in", "/grus/pieces", "/grus/work"
CARRIER, TASK = "carrier.py", "task.json"
KEY = "piece"
GRACE = 20
"""Seconds: the sampler ends its workload within ten."""
HOPELESS = frozenset(
    ("ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError")
)
"""Reasons for which a container waits indefinitely …"""
FAILING = frozenset(("ErrImagePull", "ImagePullBackOff", "RunContainerError"))
"""… and why it waits if something outside does not change."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """The current state of a pod, as far as it is known."""

    phase: str
    node: str
    word: str
    """The reason why it waits or the way it ended, in the cluster's words."""
    stuck: bool = False
    """True if its container cannot be started in the present conditions …"""
    hopeless: bool = False
    """… and never will."""
    image_id: str = ""

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def name_of(key: str, run: str) -> str:
    return f"grus-{key}-{staging.short(run)}"


def instructions(name: str, key: str, run: str, files: Mapping[str, str]) -> Object:
    """The ConfigMap with what the pod is to do."""
    return {"metadata": _metadata(name, key, run), "data": dict(files)}


def piece_name(key: str, number: int) -> str:
    return f"grus-{key}-code-{number}"


def piece(key: str, number: int, content: bytes) -> Object:
    return {
        "metadata": _metadata(piece_name(key, number), key, "code"),
        "binaryData": {KEY: base64.b64encode(content).decode()},
    }


def pod(name: str, key: str, run: str, workload: Workload, *, pieces: int, resource: str) -> Object:
    mounts = [("in", IN, True), ("pieces", PIECES, True), ("work", WORK, False)]
    container = {
        "name": "main",
        "image": workload.image,
        "command": ["python3", f"{IN}/{CARRIER}", f"{IN}/{TASK}"],
        "workingDir": WORK,
        "resources": _resources(workload, resource),
        "volumeMounts": [
            {"name": volume, "mountPath": path, "readOnly": read_only} for volume, path, read_only in mounts
        ],
    }
    sources = [
        {"configMap": {"name": piece_name(key, number), "items": [{"key": KEY, "path": f"{number:02}"}]}}
        for number in range(pieces)
    ]
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE,
        "nodeSelector": dict(workload.job.node_selector),
        "containers": [container],
        "volumes": [
            {"name": "in", "configMap": {"name": name}},
            {"name": "pieces", "projected": {"sources": sources}},
            {"name": "work", "emptyDir": {}},
        ],
    }
    whole = {"metadata": _metadata(name, key, run), "spec": spec}
    return pods.merged(whole, workload.job.pod)


def never_pulled(made: Object) -> bool:
    return bool(made["spec"]["containers"][0].get("imagePullPolicy") == "Never")


def ended(found: Object) -> bool:
    """Return whether nothing of it runs or will run.

    A container that is being created may run the next moment.
    """
    if not (found.get("spec") or {}).get("nodeName"):
        return True
    containers = (found.get("status") or {}).get("containerStatuses") or ()
    states = [one.get("state") or {} for one in containers]
    return bool(states) and all("terminated" in state or _stuck(state) for state in states)


def _stuck(state: Object) -> bool:
    return _waits_for(state) in HOPELESS | FAILING


def _waits_for(state: Object) -> str:
    return str((state.get("waiting") or {}).get("reason", ""))


def standing(found: Object) -> PodStatus:
    status, spec = found.get("status") or {}, found.get("spec") or {}
    containers = status.get("containerStatuses") or [{}]
    state = containers[0].get("state") or {}
    return PodStatus(
        phase=status.get("phase", "Pending"),
        node=spec.get("nodeName") or "",
        word=_word(status, state),
        stuck=_stuck(state),
        hopeless=_waits_for(state) in HOPELESS,
        image_id=containers[0].get("imageID") or "",
    )


def _word(status: Object, state: Object) -> str:
    for part in ("waiting", "terminated"):
        if (found := state.get(part)) and found.get("reason") != "Completed":
            return _joined(found.get("reason", ""), found.get("message", ""))
    if status.get("reason"):  # evicted, past its deadline
        return _joined(status["reason"], status.get("message", ""))
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return _joined(one.get("reason", ""), one.get("message", ""))
    return ""


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason


def _metadata(name: str, key: str, run: str) -> Object:
    return {"name": name, "labels": {LABEL: key}, "annotations": {f"{LABEL}-run": run}}


def _resources(workload: Workload, resource: str) -> Object:
    """Cores are requested and not limited, memory both, as for Grus's own workers."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    shares, asked = max(1, workload.gpus), workload.job.resources
    if workload.gpus:
        limits[resource] = requests[resource] = str(workload.gpus)
    if asked.memory is not None:
        limits["memory"] = requests["memory"] = str(parse_bytes(asked.memory) * shares)
    if asked.cpu is not None:
        requests["cpu"] = f"{math.ceil(asked.cpu * shares * 1000)}m"
    return {"limits": limits, "requests": requests}
