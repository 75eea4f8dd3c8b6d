"""What the agent has to know of a pod, read off the object. Pure."""

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
class Wanted:
    """One pod of this node, as the API server has it."""

    uid: str
    name: str
    namespace: str
    worker: bool
    """Whether it has the volume through which it is spoken to. Reservations and plain pods have not."""
    control: str | None
    kill_at: float | None
    """Unix seconds."""
    said: str
    """What was written of its report by now."""
    uuids: str
    signalled: bool
    """Whether it was told to end."""
    read: bool
    over: bool
    """Whether it was told to have used too much."""
    running: bool
    """Whether its main container runs."""
    ended: bool
    """Whether none of its containers runs, nor ever will, by the word of the kubelet or of who deleted it."""
    shared: bool
    """Whether its containers share the pod's first process, which belongs to none of them."""
    host_network: bool
    """Whether it has the machine's network in place of one of its own."""
    gpus: bool
    """Whether the kubelet gives it any."""
    gpu_memory: int
    """Bytes that it may use on each of its GPUs; 0 for no cap."""


def wanted(pod: Mapping[str, Any]) -> Wanted | None:
    """None for a pod that is none of Grus's, or whose uid cannot be the name of a folder."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if not (JOB in labels or RESERVATION in labels) or not _UID.fullmatch(metadata["uid"]):
        return None
    return Wanted(
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
        return True  # the kubelet has let go of it, or somebody has forced it away
    containers = status.get("containerStatuses") or ()
    return bool(containers) and all("terminated" in (one.get("state") or {}) for one in containers)


def _number(text: str | None) -> float | None:
    """None for what is no finite number, which only somebody else can have written."""
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def asks_for_gpus(container: Mapping[str, Any]) -> bool:
    """Devices of plugins have names with a domain in front (nvidia.com/gpu); the kubelet's own have none."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return any("/" in name for name in limits)
