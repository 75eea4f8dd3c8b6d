"""Pod fields that the agent needs, read from the object. Pure."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.names import (
    CONTROL,
    GPU_MEMORY,
    JOB,
    KILL_AT,
    OVER,
    READ,
    RESERVATION,
    SAID,
    SIGNALLED,
    UUIDS,
    VOLUME,
)

_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """One pod of this node, as the API server has it."""

    uid: str
    name: str
    namespace: str
    worker: bool
    """True if it has the volume for communication with the agent; reservations and plain pods have none."""
    control: str | None
    kill_at: float | None
    """Unix seconds."""
    said: str
    """Part of its report that was written so far."""
    uuids: str
    signalled: bool
    """True if it was signaled to end."""
    read: bool
    over: bool
    """True if it was marked as having used too much memory."""
    running: bool
    """True if its main container runs."""
    ended: bool
    """True if none of its containers runs, or ever will, according to the kubelet or the deletion."""
    shared: bool
    """True if its containers share the pod's first process, which belongs to none of them."""
    host_network: bool
    """True if it has the machine's network instead of its own."""
    gpus: bool
    """True if the kubelet gives it any GPU."""
    gpu_memory: int
    """Bytes that it may use on each of its GPUs; 0 for no cap."""


def wanted(pod: Mapping[str, Any]) -> AssignedPod | None:
    """Return the pod; None if it is not Grus's, or if its uid cannot be the name of a folder."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if not (JOB in labels or RESERVATION in labels) or not _UID.fullmatch(metadata["uid"]):
        return None
    return AssignedPod(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        worker=any(one.get("name") == VOLUME for one in spec.get("volumes") or ()),
        control=notes.get(CONTROL),
        kill_at=_number(notes.get(KILL_AT)),
        said=notes.get(SAID, ""),
        uuids=notes.get(UUIDS, ""),
        signalled=SIGNALLED in notes,
        read=READ in notes,
        over=OVER in notes,
        running=any("running" in (one.get("state") or {}) for one in status.get("containerStatuses") or ()),
        ended=ended(metadata, status),
        shared=bool(spec.get("shareProcessNamespace")),
        host_network=bool(spec.get("hostNetwork")),
        gpus=any(map(asks_for_gpus, spec.get("containers") or ())),
        gpu_memory=int(_number(notes.get(GPU_MEMORY)) or 0),
    )


def ended(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") == 0:
        return True  # the kubelet has released it, or it was deleted by force
    containers = status.get("containerStatuses") or ()
    return bool(containers) and all("terminated" in (one.get("state") or {}) for one in containers)


def _number(text: str | None) -> float | None:
    """Return the number; None for a text that is no finite number, which Grus cannot have written."""
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def asks_for_gpus(container: Mapping[str, Any]) -> bool:
    """Devices of plugins have names with a domain in front (nvidia.com/gpu); the kubelet's own have none."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return any("/" in name for name in limits)
