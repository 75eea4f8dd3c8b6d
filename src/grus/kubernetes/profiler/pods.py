"""Pod fields that the profiler needs, read from the object. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.agent.pods import asks_for_gpus, ended
from grus.kubernetes.names import DEVICES, SAID, UUIDS, VOLUME
from grus.kubernetes.node.tag_annotations import ours


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod of this node that has GPUs and runs."""

    uid: str
    name: str
    namespace: str
    devices: tuple[str, ...]
    """Its GPUs by the scheduler's names; empty for a pod that Grus has not placed."""
    uuids: tuple[str, ...]
    """The same by the driver's names, once the node agent has reported them."""
    said: str
    """The last line of its report."""
    tags: Mapping[str, str]
    """The annotations on it that are tags."""
    worker: bool
    """True if it is a worker of a Grus job, which may report its steps."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"


def gpu_pod(pod: Mapping[str, Any]) -> GpuPod | None:
    """None for one that has no GPU, does not run yet, or has ended."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    notes = metadata.get("annotations") or {}
    has = notes.get(DEVICES) or any(map(asks_for_gpus, spec.get("containers") or ()))
    if not has or status.get("phase") != "Running" or ended(metadata, status):
        return None
    return GpuPod(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        devices=_names(notes.get(DEVICES, "")),
        uuids=_names(notes.get(UUIDS, "")),
        said=notes.get(SAID, ""),
        tags={name: text for name, text in notes.items() if ours(name)},
        worker=any(one.get("name") == VOLUME for one in spec.get("volumes") or ()),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(one for one in text.split(",") if one)
