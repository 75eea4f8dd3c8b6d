"""Synchronization of converted objects with their GpuJobs, while this controller leads.

Two controllers at once would do no harm: the name of a job follows from its object's. Level-triggered: on any
change, the object and its job are read as they are, and brought in line. An object whose job has ended is
done; it is not run again because the job was removed.
"""

import logging
import threading
import time
from datetime import UTC, datetime
from typing import NamedTuple

from grus.concurrency.workqueue import WorkQueue
from grus.kubernetes.client.api import Api, Exists, Invalid, Missing, Object, ResourceKind
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, GPU_JOBS
from grus.kubernetes.install.foreign_crds import (
    BRAIN_GROUP,
    BRAIN_PLURAL,
    BRAIN_VERSION,
    HOROVOD_DISCOVERY,
    HOROVOD_GROUP,
    HOROVOD_PLURAL,
    HOROVOD_VERSION,
)
from grus.model.errors import BadInput, GrusError, Mistake
from grus.model.jobs import TERMINAL
from grus.operator.foreign_jobs import big_brain, horovod
from grus.operator.foreign_jobs.gpujob import (
    MADE_FROM,
    MADE_OF,
    fields_digest,
    job_name,
    refused,
    with_unapplied,
    wrong,
)

log = logging.getLogger(__name__)

HOROVOD_JOBS = ResourceKind(HOROVOD_GROUP, HOROVOD_VERSION, HOROVOD_PLURAL, True, horovod.KIND)
BRAIN_JOBS = ResourceKind(BRAIN_GROUP, BRAIN_VERSION, BRAIN_PLURAL, True, big_brain.KIND)
KINDS = {kind.name.lower(): kind for kind in (HOROVOD_JOBS, BRAIN_JOBS)}


class Key(NamedTuple):
    kind: str
    """Kind in lower case."""
    namespace: str
    name: str


class Converters:
    """Starts with `start`, ends with `close`; nothing happens where the cluster has none of the kinds."""

    def __init__(self, api: Api, *, image: str) -> None:
        self._api = api
        self._image = image
        self._work: WorkQueue[Key] = WorkQueue()
        self._sources: dict[str, Reflector] = {}
        self._jobs: Reflector | None = None
        self._thread = threading.Thread(target=self._run, name="converters", daemon=True)

    def start(self) -> None:
        there = [name for name, kind in KINDS.items() if self._api.serves(kind)]
        if not there:
            return
        self._jobs = Reflector(self._api, GPU_JOBS, labels=MADE_OF, on_change=self._job_changed)
        self._sources = {
            name: Reflector(self._api, KINDS[name], on_change=self._source_changed) for name in there
        }
        self._thread.start()

    def close(self) -> None:
        self._work.close()
        for reflector in (*self._sources.values(), *((self._jobs,) if self._jobs else ())):
            reflector.close()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _source_changed(self, what: str, source: Object) -> None:
        if what != "DELETED":  # its job is removed by itself: the object owns it
            self._work.add(_key(source))

    def _job_changed(self, what: str, job: Object) -> None:  # noqa: ARG002 - one that is gone counts too
        for owner in job["metadata"].get("ownerReferences") or ():
            if owner["kind"].lower() in KINDS:
                self._work.add(Key(owner["kind"].lower(), job["metadata"]["namespace"], owner["name"]))

    def _run(self) -> None:
        for reflector in (*self._sources.values(), self._jobs):
            assert reflector is not None
            reflector.synced.wait()
        while (key := self._work.take()) is not None:
            try:
                self._look(key)
            except GrusError as error:
                log.warning("%s %s/%s: %s", *key, error)
                self._work.failed(key)
            except Exception:  # thread boundary: one invalid object must not stop the others
                log.exception("%s %s/%s", *key)
                self._work.failed(key)
            else:
                self._work.done(key)

    # ------------------------------------------------------------------------------------- one object

    def _look(self, key: Key) -> None:
        reflector, jobs = self._sources.get(key.kind), self._jobs
        assert jobs is not None
        source = reflector.get(key.name, key.namespace) if reflector else None
        if source is None or source["metadata"].get("deletionTimestamp"):
            return
        try:
            job = jobs.get(job_name(source), key.namespace) or self._make(source)
        except BadInput as error:
            self._tell(source, refused(error, _now()))
            return
        if job is None:
            return
        job = self._with_digest(source, job)
        horovods = key.kind == HOROVOD_JOBS.name.lower()
        if horovods:
            self._follow_size(source, job)
        status = horovod.status(job) if horovods else big_brain.status(job)
        self._tell(source, with_unapplied(status, source, job, time.time()))

    def _make(self, source: Object) -> Object | None:
        """The job of a new object; None for one that is over. Raises BadInput for one that makes no sense."""
        if (source.get("status") or {}).get("phase") in TERMINAL:
            return None
        made = self._converted(source)
        try:
            return self._api.create(GPU_JOBS, made)
        except Exists:
            found = self._api.get(GPU_JOBS, made["metadata"]["name"], made["metadata"]["namespace"])
            owners = {one["uid"] for one in found["metadata"].get("ownerReferences") or ()}
            if source["metadata"]["uid"] not in owners:
                rule = f"the GpuJob {found['metadata']['name']} is there already, and is not of this object"
                raise wrong(Mistake("metadata.name", rule)) from None
            return found
        except Invalid as error:
            raise wrong(Mistake("spec", error.text)) from error

    def _with_digest(self, source: Object, job: Object) -> Object:
        """The job of an earlier version gets the digest by which later changes of its object are noticed."""
        metadata = job["metadata"]
        over = (job.get("status") or {}).get("phase") in TERMINAL
        if over or MADE_FROM in (metadata.get("annotations") or {}):
            return job
        body = {"metadata": {"annotations": {MADE_FROM: fields_digest(source)}}}
        return self._api.patch(GPU_JOBS, metadata["name"], body, metadata["namespace"])

    def _converted(self, source: Object) -> Object:
        if source["kind"] == big_brain.KIND:
            return big_brain.convert(source, image=self._image)
        return horovod.convert(source, prepared=self._prepared(source["metadata"]["namespace"]))

    def _prepared(self, namespace: str) -> bool:
        try:
            self._api.get(CONFIG_MAPS, HOROVOD_DISCOVERY, namespace)
        except Missing:
            return False
        return True

    def _follow_size(self, source: Object, job: Object) -> None:
        wanted = horovod.pinned(source).get("replicas")
        if wanted is not None and job["spec"].get("replicas") != wanted:
            metadata = job["metadata"]
            body = {"spec": {"replicas": wanted}}
            self._api.patch(GPU_JOBS, metadata["name"], body, metadata["namespace"])

    def _tell(self, source: Object, status: Object) -> None:
        """Write the job's status to the object, unless it is there already."""
        before = source.get("status") or {}
        if _same_but_for_time(before, status):
            return
        metadata = source["metadata"]
        kind = KINDS[source["kind"].lower()]
        try:
            self._api.patch(kind, metadata["name"], {"status": status}, metadata["namespace"], part="status")
        except Missing:
            log.debug("%s %s is gone", kind.name, metadata["name"])


def _key(source: Object) -> Key:
    return Key(source["kind"].lower(), source["metadata"]["namespace"], source["metadata"]["name"])


def _same_but_for_time(before: Object, now: Object) -> bool:
    """Return whether the status is unchanged except for time, so that a refusal is reported only once."""
    if now.get("phase") == "refused":
        return bool(before.get("reason") == now["reason"])
    return all(before.get(name) == value for name, value in now.items())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
