"""Conversion of jobs to GpuJob objects and back. Pure.

`status.record` is the job in JSON, `status.recent` its last events, each with the version of the job that it
came with, `status.epoch` the leader term of the last writer; the rest of the status is for users. Record and
events are texts: on trees of that size an API server spends as much time as on all the rest of a write.
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.api_objects.job_status import OWNED, merged, people
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import JOB, PREFIX
from grus.model.identifiers import JobId
from grus.model.interfaces import Event
from grus.model.jobs import TERMINAL, Job
from grus.store import codec
from grus.store.kubernetes.job_manifest import written
from grus.store.mirror import MirroredJob

KEY = f"{PREFIX}key"
"""Annotation: hash of the idempotency key under which its user submitted it."""
CREATING = f"{PREFIX}creating"
"""Annotation: time (Unix seconds) at which a store started to make the object, which has no record at
first.
"""
AT_ONCE = 60.0
"""Maximum difference in seconds of the annotation's time and the object's own, by clocks of two machines."""
RECENT = 20
LONGEST_NAME = 63

log = logging.getLogger(__name__)

Dated = tuple[int, Event]
"""Event and the version of the job that it came with."""


# ------------------------------------------------------------------------------------------ object to job


def found(item: Object) -> MirroredJob | None:
    """Return the job that an object records; None without a record, or with one that cannot be read."""
    status = item.get("status") or {}
    if "record" not in status:
        return None
    try:
        job = codec.JOB.decode(status["record"])
        return MirroredJob(job, _recent(status, job.id), _key(item, job.id))
    except (msgspec.MsgspecError, TypeError) as error:
        where = home(item)
        log.error("the record of GpuJob %s/%s cannot be read: %s", where.namespace, where.name, error)
        return None


def home(item: Object) -> Home:
    metadata = item["metadata"]
    return Home(metadata["namespace"], metadata["name"], metadata["uid"])


def record_version(item: Object) -> int:
    """Return the version of the job that it records; 0 without a record."""
    return _brief(item).version


def job_of(item: Object) -> JobId | None:
    """Return the id of the job that is recorded in it."""
    id_ = _brief(item).id
    return JobId(id_) if id_ else None


def live(item: Object) -> bool:
    """Return whether it records a job that has not ended."""
    phase = _brief(item).phase
    return bool(phase) and phase not in TERMINAL


def epoch(item: Object) -> int:
    told = (item.get("status") or {}).get("epoch")
    return told if isinstance(told, int) else 0


def being_made(item: Object) -> bool:
    """Return whether a store is making it, or was stopped while it did: others must leave it alone.

    A user's copy of such an object has the annotation too, but not its time.
    """
    began = (item["metadata"].get("annotations") or {}).get(CREATING)
    if began is None or record_version(item):
        return False
    try:
        made = datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()
        return abs(made - float(began)) <= AT_ONCE
    except ValueError:
        return False


class _Brief(msgspec.Struct):
    """Frequently needed fields of a record; the parser skips the rest, which is much faster."""

    id: str = ""
    version: int = 0
    phase: str = ""


class _Recent(msgspec.Struct, omit_defaults=True):
    """Event as it is kept in the object."""

    version: int
    at: float
    kind: str
    text: str
    attempt: int = 0
    generation: int = 0
    held: int | None = None
    working: int | None = None
    lost: int | None = None

    @classmethod
    def of(cls, version: int, event: Event) -> "_Recent":
        return cls(
            version,
            event.at,
            event.kind,
            event.text,
            event.attempt,
            event.generation,
            event.held,
            event.working,
            event.lost,
        )

    def event(self, job: JobId) -> Event:
        return Event(
            at=self.at,
            kind=self.kind,
            text=self.text,
            job=job,
            attempt=self.attempt,
            generation=self.generation,
            held=self.held,
            working=self.working,
            lost=self.lost,
        )


_BRIEF = msgspec.json.Decoder(_Brief)
_RECENT = msgspec.json.Decoder(list[_Recent])
_NOTHING = _Brief()


def _brief(item: Object) -> _Brief:
    record = (item.get("status") or {}).get("record")
    try:
        return _BRIEF.decode(record) if record else _NOTHING
    except (msgspec.MsgspecError, TypeError):  # `found` reports it, once
        return _NOTHING


def _recent(status: Mapping[str, Any], job: JobId) -> list[Dated]:
    return [(one.version, one.event(job)) for one in _RECENT.decode(status.get("recent") or "[]")]


def _key(item: Object, job: JobId) -> str | None:
    """Return the key, only of the object that was made for the job: a user's copy has the same
    annotations.
    """
    annotations = item["metadata"].get("annotations") or {}
    return annotations.get(KEY) if annotations.get(JOB) == job else None


# ------------------------------------------------------------------------------------------ job to object


def key_hash(user: str, key: str) -> str:
    return hashlib.sha256(f"{user}\0{key}".encode(errors="surrogatepass")).hexdigest()[:40]


def object_name(job: Job) -> str:
    """Return the name that users see, with the id that makes it unique."""
    room = LONGEST_NAME - len(job.id) - 1
    words = re.sub(r"[^a-z0-9]+", "-", job.spec.name.lower())[:room].strip("-")
    return f"{words}-{job.id}" if words else job.id


def new_object(
    job: Job,
    *,
    namespace: str,
    now: float,
    key: str | None = None,
    finalizers: Sequence[str] = (),
) -> Object:
    """Return the object of a job that was not submitted as one; its record is written next."""
    annotations = {JOB: job.id, CREATING: f"{now:.3f}"} | ({KEY: key} if key is not None else {})
    metadata: Object = {"name": object_name(job), "namespace": namespace, "annotations": annotations}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata, "spec": written(replace(job.spec, request=job.asked))}


def recorded(
    before: Object, job: Job, body: str, events: Iterable[Dated], *, epoch_now: int, now: float
) -> Object:
    """Return the status to write to an object: the record, and the fields for users.

    Fields and conditions that others have written stay. `body` is the job in JSON.
    """
    old = before.get("status") or {}
    shown = people(job, now)
    kept = {name: value for name, value in old.items() if name not in OWNED}
    status = {
        **kept,
        **shown,
        "conditions": merged(old.get("conditions") or [], shown["conditions"]),
        "record": body,
        "recent": _with_recent(old, events),
        "epoch": max(epoch_now, epoch(before)),
    }
    return {"metadata": _same(before), "status": status}


def _with_recent(old: Mapping[str, Any], events: Iterable[Dated]) -> str:
    new = [_Recent.of(version, one) for version, one in events]
    try:
        before = _RECENT.decode(old.get("recent") or "[]")
    except msgspec.MsgspecError:  # it was damaged
        before = []
    return msgspec.json.encode([*before, *new][-RECENT:]).decode()


def touched(before: Object, epoch_now: int) -> Object:
    """Return the same status under a later leader term."""
    return {"metadata": _same(before), "status": {**before["status"], "epoch": epoch_now}}


def _same(item: Object) -> Object:
    """Return the identity of the object, and the state of it that was seen."""
    return {name: item["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
