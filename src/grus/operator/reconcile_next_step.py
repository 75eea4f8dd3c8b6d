"""Intake: the next step for a GpuJob. Pure: the present object + the recorded job → the next step.

An object becomes a job once: a finalizer is added, the object is checked, and its job is written into its
status. From then on only `paused`, `replicas` and the deletion of its spec act on the job. They are carried
out when they change, not repeatedly: another user action meanwhile (`grus pause`) stays in force.
`status.asked` has what was carried out last.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.client.resource_kinds import Object
from grus.model.identifiers import JobId, job_id
from grus.model.jobs import Desired, Job
from grus.model.resources import Range
from grus.store.kubernetes import job_status_codec

FINALIZER = "grus.dev/job"
WISHES = ("paused", "replicas")
"""Fields of the spec that may change after submit."""


@dataclass(frozen=True, slots=True)
class RequestedSpec:
    """Request in an object's spec."""

    generation: int
    paused: bool
    replicas: int | None
    digest: str
    """Digest of all fields that never change after submit."""

    def status(self, digest: str) -> dict[str, Any]:
        """Return the request for the object's status, with the digest of the submitted spec."""
        return {
            "generation": self.generation,
            "paused": self.paused,
            "replicas": self.replicas,
            "digest": digest,
        }


@dataclass(frozen=True, slots=True)
class KeepObject:
    """Keep the object until its job has ended."""


@dataclass(frozen=True, slots=True)
class AdmitObject:
    """Check it and make a job of it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Step that stops the job, because the object was deleted."""


@dataclass(frozen=True, slots=True)
class ReleaseObject:
    """Step that removes the finalizer, because nothing of its job is left."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Carry out what has changed in the spec."""

    asked: RequestedSpec
    digest: str
    """Digest of the submitted spec."""
    paused: bool | None = None
    """None if it has not changed."""
    scaled: bool = False
    size: Range | None = None

    @property
    def altered(self) -> bool:
        """True if a field that must never change has changed too."""
        return self.asked.digest != self.digest


Step = KeepObject | AdmitObject | Stop | ReleaseObject | Follow


def next_step(found: Object, job: Job | None, *, at_work: bool) -> Step | None:
    """`job` is the one on record; `at_work`: whether any worker of it is left."""
    metadata = found["metadata"]
    held = FINALIZER in (metadata.get("finalizers") or ())
    if "deletionTimestamp" in metadata:
        return _parting(job, at_work=at_work) if held else None
    if job is None:
        if (found.get("status") or {}).get("record"):
            return None  # the store has yet to read it
        return AdmitObject() if held else KeepObject()
    return _following(found) if held else KeepObject()


def _parting(job: Job | None, *, at_work: bool) -> Step | None:
    if job is None or job.terminal:
        return None if at_work else ReleaseObject()
    return None if job.desired is Desired.STOP else Stop()


def _following(found: Object) -> Follow | None:
    now = asked(found)
    last = last_asked(found) or RequestedSpec(0, False, None, now.digest)
    if now.generation == last.generation:
        return None
    return Follow(
        asked=now,
        digest=last.digest,
        paused=now.paused if now.paused != last.paused else None,
        scaled=now.replicas != last.replicas,
        size=size(now.replicas),
    )


def size(replicas: int | None) -> Range | None:
    return None if replicas is None else Range(replicas, replicas)


def asked(found: Object) -> RequestedSpec:
    """Return the object's present request."""
    spec = found.get("spec") or {}
    lasting = {key: value for key, value in spec.items() if key not in WISHES}
    text = json.dumps(lasting, sort_keys=True, separators=(",", ":"))
    return RequestedSpec(
        generation=int(found["metadata"].get("generation", 0)),
        paused=spec.get("paused") is True,
        replicas=spec.get("replicas"),
        digest=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def last_asked(found: Object) -> RequestedSpec | None:
    """Return the request that was carried out last; None if none ever was."""
    kept = (found.get("status") or {}).get("asked")
    if not kept:
        return None
    return RequestedSpec(
        int(kept.get("generation", 0)),
        kept.get("paused") is True,
        kept.get("replicas"),
        str(kept.get("digest", "")),
    )


def id_of(found: Object) -> JobId:
    """The id of the job that it records; before it does, the one that is made of the object's uid."""
    recorded = job_status_codec.job_of(found)
    if recorded is not None:
        return recorded
    return job_id(int(re.sub(r"[^0-9a-f]", "", found["metadata"]["uid"].lower()), 16) & ((1 << 50) - 1))


def document(found: Object) -> dict[str, Any]:
    """Return the object in the form of a job file."""
    spec = found.get("spec") or {}
    said = {key: value for key, value in spec.items() if key not in WISHES and value is not None}
    name = re.sub(r"[^a-z0-9-]+", "-", found["metadata"]["name"])[:63]
    return {**said, "name": name}
