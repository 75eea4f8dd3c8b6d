"""What has to be done about a GpuJob. Pure: the object as it is + the job on record → the next step.

An object becomes a job once: it is held by a finalizer, checked, and its job is written into its status.
From then on its spec says what people want only by `paused`, `replicas` and its deletion. They are carried
out when they change, not over and over: what was wanted in another way meanwhile (`grus pause`) stands. What
was carried out last is in `status.asked`.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.kinds import Object
from grus.model.identifiers import JobId, job_id
from grus.model.jobs import Desired, Job
from grus.model.resources import Range
from grus.store.kubernetes import records

FINALIZER = "grus.dev/job"
WISHES = ("paused", "replicas")
"""Fields of the spec that may change after submit."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an object's spec asks for."""

    generation: int
    paused: bool
    replicas: int | None
    digest: str
    """Of everything that never changes after submit."""

    def status(self, digest: str) -> dict[str, Any]:
        """To be kept in the object's status, with the digest of what was submitted."""
        return {
            "generation": self.generation,
            "paused": self.paused,
            "replicas": self.replicas,
            "digest": digest,
        }


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the object until its job has ended."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Check it and make a job of it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody has deleted it."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Nothing of its job is left."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Carry out what has changed in the spec."""

    asked: Asked
    digest: str
    """Of what was submitted."""
    paused: bool | None = None
    """None if it has not changed."""
    scaled: bool = False
    size: Range | None = None

    @property
    def altered(self) -> bool:
        """Whether something else has changed too, which never does."""
        return self.asked.digest != self.digest


Step = Hold | Admit | Stop | LetGo | Follow


def next_step(found: Object, job: Job | None, *, at_work: bool) -> Step | None:
    """`job` is the one on record; `at_work`: whether any worker of it is left."""
    metadata = found["metadata"]
    held = FINALIZER in (metadata.get("finalizers") or ())
    if "deletionTimestamp" in metadata:
        return _parting(job, at_work=at_work) if held else None
    if job is None:
        if (found.get("status") or {}).get("record"):
            return None  # the store has yet to read it
        return Admit() if held else Hold()
    return _following(found) if held else Hold()


def _parting(job: Job | None, *, at_work: bool) -> Step | None:
    if job is None or job.terminal:
        return None if at_work else LetGo()
    return None if job.desired is Desired.STOP else Stop()


def _following(found: Object) -> Follow | None:
    now = asked(found)
    last = last_asked(found) or Asked(0, False, None, now.digest)
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


def asked(found: Object) -> Asked:
    """What the object asks for now."""
    spec = found.get("spec") or {}
    lasting = {key: value for key, value in spec.items() if key not in WISHES}
    text = json.dumps(lasting, sort_keys=True, separators=(",", ":"))
    return Asked(
        generation=int(found["metadata"].get("generation", 0)),
        paused=spec.get("paused") is True,
        replicas=spec.get("replicas"),
        digest=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def last_asked(found: Object) -> Asked | None:
    """What was carried out last; None if nothing ever was."""
    kept = (found.get("status") or {}).get("asked")
    if not kept:
        return None
    return Asked(
        int(kept.get("generation", 0)),
        kept.get("paused") is True,
        kept.get("replicas"),
        str(kept.get("digest", "")),
    )


def id_of(found: Object) -> JobId:
    """The id of the job that it records; before it does, the one that is made of the object's uid."""
    recorded = records.job_of(found)
    if recorded is not None:
        return recorded
    return job_id(int(re.sub(r"[^0-9a-f]", "", found["metadata"]["uid"].lower()), 16) & ((1 << 50) - 1))


def document(found: Object) -> dict[str, Any]:
    """The object as a job file would say it."""
    spec = found.get("spec") or {}
    said = {key: value for key, value in spec.items() if key not in WISHES and value is not None}
    name = re.sub(r"[^a-z0-9-]+", "-", found["metadata"]["name"])[:63]
    return {**said, "name": name}
