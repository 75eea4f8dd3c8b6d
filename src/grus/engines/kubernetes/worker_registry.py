"""Engine's record of one worker. The pod is authoritative; the record can be rebuilt from it at any time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grus.engines.kubernetes import pod_status
from grus.engines.kubernetes.logs import LogSource
from grus.engines.kubernetes.pod_manifest import sliced
from grus.engines.kubernetes.pod_status import Moments
from grus.engines.kubernetes.quantities import amount, asked
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import ATTEMPT, CONTROL, DEVICES, KILL_AT, VOLUME
from grus.model.identifiers import DeviceId
from grus.model.interfaces import WorkerSpec, WorkerState, WorkerStatus


@dataclass(slots=True)
class PodRecord:
    """Changed under the watcher's lock only."""

    status: WorkerStatus
    """Status as last reported."""
    spec: WorkerSpec | None = None
    """Specification of a worker that this engine has started; None otherwise."""
    pod: Object | None = None
    """The newest that is known; None before it is made."""
    devices: tuple[DeviceId, ...] = ()
    sliced: bool = False
    """True if the worker has only a part of a GPU."""
    moments: Moments = field(default_factory=Moments)
    again: float | None = None
    """Unix time of the next check although nothing has changed."""
    kill_at: float | None = None
    """Time at which it is to be killed; None if no stop was requested."""
    kill_at_sent: float | None = None
    waits_since: float | None = None
    """Since when its GPU's name is waited for, by the clock that never jumps."""
    control: str | None = None
    control_sent: str | None = None
    doomed: bool = False
    """True if the engine itself is ending the worker."""
    judged: bool = False
    """True while the cause of its end is being determined."""
    ending: WorkerStatus | None = None
    """Final status, while the GPU that was reserved for the worker is not free yet."""

    @property
    def ended(self) -> bool:
        return self.status.state is WorkerState.ENDED

    @property
    def node(self) -> str:
        if self.pod is not None:
            return str((self.pod.get("spec") or {}).get("nodeName") or "")
        return self.spec.node if self.spec is not None else ""


def started(worker: WorkerSpec) -> PodRecord:
    """Return the record of a worker that is about to be created."""
    status = WorkerStatus(id=worker.id, job=worker.job, attempt=worker.attempt, state=WorkerState.STARTING)
    return PodRecord(status, spec=worker, devices=worker.devices, sliced=sliced(worker))


def found(pod: Object, resource: str) -> PodRecord:
    """Return the record of a worker whose pod exists."""
    worker = pod_status.worker_of(pod)
    assert worker is not None
    notes = pod["metadata"].get("annotations") or {}
    devices = tuple(DeviceId(one) for one in (notes.get(DEVICES) or "").split(",") if one)
    status = WorkerStatus(
        id=worker,
        job=pod_status.job_of(pod, worker),
        attempt=amount(notes.get(ATTEMPT) or 1),
        state=WorkerState.STARTING,
    )
    record = PodRecord(status, devices=devices, sliced=bool(devices) and not asked(pod, resource))
    take(record, pod)
    record.control = record.control_sent = notes.get(CONTROL)
    return record


def take(record: PodRecord, pod: Object) -> None:
    """Update the record with the newest state of its pod."""
    record.pod = pod
    sent = _kill_at(pod)
    if sent is not None:
        record.kill_at_sent = sent
        record.kill_at = sent if record.kill_at is None else min(sent, record.kill_at)


def source(record: PodRecord) -> LogSource | None:
    """Return the source of the worker's output; None before it has any."""
    if record.pod is None:
        return None
    metadata, spec = record.pod["metadata"], record.pod["spec"]
    container = str(spec["containers"][0]["name"])
    return LogSource(metadata["namespace"], metadata["name"], container, record.ended)


def made_by_grus(pod: Mapping[str, Any]) -> bool:
    """Return whether Grus made the pod and may remove it.

    A pod that another program made only has its placement from Grus.
    """
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any(volume.get("name") == VOLUME for volume in volumes)


def may_stay(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod ended by itself, and has an owner with which it will be removed."""
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    owned = bool(metadata.get("ownerReferences"))
    asked = bool(metadata.get("deletionTimestamp")) or KILL_AT in (metadata.get("annotations") or {})
    return owned and phase in ("Succeeded", "Failed") and not asked


def _kill_at(pod: Mapping[str, Any]) -> float | None:
    try:
        return float((pod["metadata"].get("annotations") or {})[KILL_AT])
    except (KeyError, ValueError):
        return None
