"""What the engine holds of one worker. The pod is the truth; this can be made anew from it at any moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grus.engines.kubernetes import states
from grus.engines.kubernetes.logs import Source
from grus.engines.kubernetes.pods import sliced
from grus.engines.kubernetes.quantities import amount, asked
from grus.engines.kubernetes.states import Moments
from grus.kubernetes.kinds import Object
from grus.kubernetes.names import ATTEMPT, CONTROL, DEVICES, KILL_AT, VOLUME
from grus.model.identifiers import DeviceId
from grus.model.ports import WorkerSpec, WorkerState, WorkerStatus


@dataclass(slots=True)
class Record:
    """Changed under the watcher's lock only."""

    status: WorkerStatus
    """As last told."""
    spec: WorkerSpec | None = None
    """Where this engine has started it."""
    pod: Object | None = None
    """The newest that is known; None before it is made."""
    devices: tuple[DeviceId, ...] = ()
    sliced: bool = False
    """Whether it has a part of a GPU only."""
    moments: Moments = field(default_factory=Moments)
    again: float | None = None
    """When to look again although nothing has changed (Unix time)."""
    kill_at: float | None = None
    """When it is to be killed; None if nobody has asked it to stop."""
    kill_at_sent: float | None = None
    waits_since: float | None = None
    """Since when its GPU's name is waited for, by the clock that never jumps."""
    control: str | None = None
    control_sent: str | None = None
    doomed: bool = False
    """Whether it is being ended by the engine itself."""
    judged: bool = False
    """Whether its end is being looked into."""
    ending: WorkerStatus | None = None
    """How it has ended, while the GPU that was reserved for it is not free yet."""

    @property
    def ended(self) -> bool:
        return self.status.state is WorkerState.ENDED

    @property
    def node(self) -> str:
        if self.pod is not None:
            return str((self.pod.get("spec") or {}).get("nodeName") or "")
        return self.spec.node if self.spec is not None else ""


def started(worker: WorkerSpec) -> Record:
    """Of a worker that is about to be made."""
    status = WorkerStatus(id=worker.id, job=worker.job, attempt=worker.attempt, state=WorkerState.STARTING)
    return Record(status, spec=worker, devices=worker.devices, sliced=sliced(worker))


def found(pod: Object, resource: str) -> Record:
    """Of a worker whose pod is there."""
    worker = states.worker_of(pod)
    assert worker is not None
    notes = pod["metadata"].get("annotations") or {}
    devices = tuple(DeviceId(one) for one in (notes.get(DEVICES) or "").split(",") if one)
    status = WorkerStatus(
        id=worker,
        job=states.job_of(pod, worker),
        attempt=amount(notes.get(ATTEMPT) or 1),
        state=WorkerState.STARTING,
    )
    record = Record(status, devices=devices, sliced=bool(devices) and not asked(pod, resource))
    take(record, pod)
    record.control = record.control_sent = notes.get(CONTROL)
    return record


def take(record: Record, pod: Object) -> None:
    """The newest that is known of its pod."""
    record.pod = pod
    sent = _kill_at(pod)
    if sent is not None:
        record.kill_at_sent = sent
        record.kill_at = sent if record.kill_at is None else min(sent, record.kill_at)


def source(record: Record) -> Source | None:
    """Where its output can be read; None before it has any."""
    if record.pod is None:
        return None
    metadata, spec = record.pod["metadata"], record.pod["spec"]
    container = str(spec["containers"][0]["name"])
    return Source(metadata["namespace"], metadata["name"], container, record.ended)


def made_by_grus(pod: Mapping[str, Any]) -> bool:
    """Whether it is Grus's to remove: a pod that somebody else made only has its place from Grus."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any(volume.get("name") == VOLUME for volume in volumes)


def may_stay(pod: Mapping[str, Any]) -> bool:
    """Whether it ended by itself, and has an owner with whom it will go."""
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    owned = bool(metadata.get("ownerReferences"))
    asked = bool(metadata.get("deletionTimestamp")) or KILL_AT in (metadata.get("annotations") or {})
    return owned and phase in ("Succeeded", "Failed") and not asked


def _kill_at(pod: Mapping[str, Any]) -> float | None:
    try:
        return float((pod["metadata"].get("annotations") or {})[KILL_AT])
    except (KeyError, ValueError):
        return None
