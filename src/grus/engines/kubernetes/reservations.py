"""Reservation pods: each holds one whole GPU for slices.

It keeps the GPU from other schedulers, and shows which GPU it is. The kubelet chooses the GPU and the node
agent writes its UUID on the pod. Slices of that device get the UUID and request nothing from the kubelet. A
reservation lives as long as a slice of its device does. Pure.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from grus.api.inputs.pod_template import merged
from grus.engines.kubernetes.nodes import SCHEDULER
from grus.engines.kubernetes.pod_manifest import LONGEST_NAME, MAIN, Recipe
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import DEVICES, EPOCH, RESERVATION, UUIDS
from grus.model.identifiers import DeviceId


def name(device: DeviceId) -> str:
    """The same for the same place: there is never a second one."""
    plain = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    found = f"grus-gpu-{plain}"
    if len(found) <= LONGEST_NAME and device.replace("/", "-") == plain:
        return found
    digest = hashlib.sha256(device.encode()).hexdigest()[:10]
    return f"{found[: LONGEST_NAME - len(digest) - 1].rstrip('-')}-{digest}"


def reservation(device: DeviceId, namespace: str, recipe: Recipe) -> Object:
    node = device.rpartition("/")[0]
    quiet: Object = {
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [
                *recipe.rules.all_tolerations(),
                {"operator": "Exists", "effect": "NoExecute"},  # it is removed with its last slice
            ],
            "containers": [
                {
                    "name": MAIN,
                    "image": recipe.image,
                    "command": ["sleep", "infinity"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        }
    }
    spec = {**merged(quiet, recipe.template)["spec"]}
    spec.pop("initContainers", None)
    one = {recipe.rules.resource: "1"}
    first, *_ = spec["containers"]
    spec |= {
        "containers": [{**first, "resources": {"limits": one, "requests": one}}],
        "nodeName": node,
        "schedulerName": SCHEDULER,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 1,
    }
    return {
        "metadata": {
            "name": name(device),
            "namespace": namespace,
            "labels": {RESERVATION: "true"},
            "annotations": {DEVICES: device, EPOCH: str(recipe.epoch)},
        },
        "spec": spec,
    }


def device_of(pod: Mapping[str, Any]) -> DeviceId:
    return DeviceId((pod["metadata"].get("annotations") or {}).get(DEVICES, ""))


def uuid_of(pod: Mapping[str, Any]) -> str:
    """Return the GPU that it holds; "" before the node agent has reported it."""
    if pod["metadata"].get("deletionTimestamp"):
        return ""
    return str((pod["metadata"].get("annotations") or {}).get(UUIDS, "")).partition(",")[0]


def failure(pod: Mapping[str, Any]) -> str:
    """Why it will never hold its GPU; "" if it does, or may."""
    status = pod.get("status") or {}
    if status.get("phase") != "Failed":
        return ""
    return f"{status.get('reason') or 'Failed'}: {status.get('message') or 'its GPU could not be reserved'}"
