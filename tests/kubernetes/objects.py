"""Builders of Kubernetes objects for tests: small, and with what a test does not care about filled in."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, cast

from lightkube.core.dictmixin import DictMixin
from lightkube.core.resource import NamespacedSubResource
from lightkube.generic_resource import Generic
from lightkube.resources.core_v1 import Node, Pod, PodBinding

from tools.kubernetes.node import IMAGE

ROOT = Path(__file__).resolve().parents[2]
GPU = "nvidia.com/gpu"
Object = TypeVar("Object", bound=DictMixin)


class Binding(NamespacedSubResource, Generic):  # type: ignore[misc]  # lightkube's Generic is a plain dict
    """The API server answers with a Status, which lightkube's own PodBinding cannot read."""

    _api_info = PodBinding._api_info


def build(kind: type[Object], content: dict[str, object]) -> Object:
    """Of a manifest; lightkube's own way there forgets the kind."""
    return cast(Object, kind.from_dict(content))


def a_pod(name: str, *command: str, node: str | None = None, gpus: int = 0) -> Pod:
    """A pod that no scheduler touches; its command finds the programs and the Python of this machine."""
    folders = host_folders()
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "env": [{"name": "PYTHONPATH", "value": f"{ROOT}/src:{ROOT}"}],
        "resources": {"limits": {GPU: str(gpus)}} if gpus else {},
        "volumeMounts": [
            {"name": f"host-{number}", "mountPath": str(folder), "readOnly": True}
            for number, folder in enumerate(folders)
        ],
    }
    spec = {
        "schedulerName": "nobody",
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": f"host-{number}", "hostPath": {"path": str(folder)}}
            for number, folder in enumerate(folders)
        ],
    }
    return build(Pod, {"metadata": {"name": name}, "spec": spec})


def host_folders() -> Sequence[Path]:
    """What of this machine a workload needs: the system, this environment, its interpreter, the project."""
    wanted = [Path(path) for path in ("/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix, ROOT)]
    within = {place for place in wanted for other in wanted if place != other and place.is_relative_to(other)}
    return sorted({place for place in wanted if place.exists()} - within)


def a_node(name: str, gpus: int = 8) -> Node:
    """A node that exists in the API only: its status has to be written after it was made."""
    return build(
        Node,
        {
            "metadata": {"name": name},
            "status": {
                "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
                "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Pretend"}],
            },
        },
    )
