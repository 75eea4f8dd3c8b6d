"""Synchronization of GpuJobs with their jobs: each object is checked on every change, and periodically.

`next_step` decides the next step, this module does it. Any failed step is tried again; nothing is concluded
from it. All writes are guarded by the version of the object that they rest on.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grus.concurrency.workqueue import WorkQueue
from grus.controlplane.facade.services import Services
from grus.controlplane.reconciler.loop import ControlLoop
from grus.kubernetes.client.api import Api, Conflicts, Missing, Unreachable
from grus.kubernetes.client.resource_kinds import GPU_JOBS, Object
from grus.model.errors import Fenced, GrusError, NotFound, StaleVersion
from grus.model.identifiers import JobId
from grus.model.interfaces import Written
from grus.model.jobs import Job
from grus.operator.admission import MANAGER, Admission, Refusal
from grus.operator.conditions import Condition, message_of, with_conditions
from grus.operator.reconcile_next_step import (
    FINALIZER,
    AdmitObject,
    Follow,
    KeepObject,
    ReleaseObject,
    Step,
    Stop,
    asked,
    id_of,
    next_step,
)
from grus.store.kubernetes.job_status_codec import being_made
from grus.store.kubernetes.store import KubernetesStore

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name."""

THREADS = 4
PARTING = 0.5
"""Seconds between two looks at an object that waits for its workers to be gone."""
ADMITTED, APPLIED = "Admitted", "Applied"


class Jobs:
    """One per controller, while it leads."""

    def __init__(
        self,
        api: Api,
        store: KubernetesStore,
        loop: ControlLoop,
        services: Services,
        make_admission: Callable[["Jobs"], Admission],
        *,
        grant: Callable[[str], None] = lambda _: None,
        valid: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._store = store
        self._loop = loop
        self._services = services
        self._admission = make_admission(self)
        self._grant = grant
        self._valid = valid
        self._clock = clock
        self._work: WorkQueue[Key] = WorkQueue()
        self._refused: set[Key] = set()
        self._leave = store.subscribe(self._heard)
        self._objects = store.objects
        self._threads = [
            threading.Thread(target=self._run, name=f"intake-{number}", daemon=True)
            for number in range(THREADS)
        ]

    def start(self) -> None:
        self._store.watch(self._changed)
        self.look_again(all_of_them=True)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._leave()
        self._work.close()
        for thread in self._threads:
            thread.join()

    def names(self, namespace: str) -> dict[str, JobId]:
        """The ids of a namespace's jobs by the names of their objects."""
        return {
            found["metadata"]["name"]: id_of(found)
            for found in self._objects.all()
            if found["metadata"]["namespace"] == namespace
        }

    def look_again(self, *, all_of_them: bool = False) -> None:
        """Queues or the pool have changed: what was refused may be welcome now."""
        keys = sorted(map(_age_and_key, self._objects.all())) if all_of_them else []
        for key in [key for _, key in keys] or list(self._refused):
            self._work.add(key)

    # ------------------------------------------------------------------------------------- hearing

    def _changed(self, kind: str, found: Object) -> None:
        key = _key(found)
        if kind == "DELETED":
            self._refused.discard(key)
        else:
            self._work.add(key)

    def _heard(self, written: Sequence[Written]) -> None:
        """A job that has ended may have an object that waits for that."""
        for job, _ in written:
            if job.terminal:
                try:
                    home = self._store.home(job.id)
                except NotFound:
                    continue
                self._work.add((home.namespace, home.name))

    # ------------------------------------------------------------------------------------- working

    def _run(self) -> None:
        while (key := self._work.take()) is not None:
            try:
                self._look(key)
            except (Conflicts, StaleVersion, Missing) as news:
                log.debug("%s/%s has changed: %s", *key, news)
                self._work.failed(key)
            except (Unreachable, Fenced) as trouble:
                log.warning("%s/%s is looked at again later: %s", *key, trouble)
                self._work.failed(key)
            except Exception:
                log.exception("%s/%s could not be looked at; it is tried again", *key)
                self._work.failed(key)
            else:
                self._work.done(key)

    def _look(self, key: Key) -> None:
        """Step after step, until there is nothing more to do about this object."""
        found = self._objects.objects.get(key)
        while found is not None and self._valid():
            job = self._job(found)
            at_work = job is not None and bool(self._loop.picture.statuses(job.id))
            step = None if job is None and being_made(found) else next_step(found, job, at_work=at_work)
            if step is None:
                if "deletionTimestamp" in found["metadata"] and FINALIZER in _finalizers(found):
                    self._work.add(key, after=PARTING)
                return
            found = self._do(step, found, job)

    def _job(self, found: Object) -> Job | None:
        try:
            return self._store.job(id_of(found))
        except NotFound:
            return None

    def _do(self, step: Step, found: Object, job: Job | None) -> Object | None:
        """The object as it is afterwards, if there is more to do at once."""
        match step:
            case KeepObject():
                return self._finalizers(found, [*_finalizers(found), FINALIZER])
            case ReleaseObject():
                self._finalizers(found, [one for one in _finalizers(found) if one != FINALIZER])
            case AdmitObject():
                self._admit(found)
            case Stop():
                assert job is not None
                self._services.actions.stop(MANAGER, job.id)
                self._work.add(_key(found), after=PARTING)
            case Follow():
                assert job is not None
                self._follow(step, found, job)
        return None

    def _finalizers(self, found: Object, wanted: list[str]) -> Object:
        metadata = found["metadata"]
        guard = {"resourceVersion": metadata["resourceVersion"], "finalizers": wanted}
        made = self._api.patch(GPU_JOBS, metadata["name"], {"metadata": guard}, metadata["namespace"])
        if wanted or "deletionTimestamp" not in metadata:
            self._objects.note(made)
        return made

    def _admit(self, found: Object) -> None:
        key, now = _key(found), self._clock()
        try:
            change = self._admission.judge(found, now)
        except Refusal as refusal:
            self._refused.add(key)
            self._refuse(found, refusal, now)
            return
        assert change.event is not None
        self._grant(key[0])
        want = asked(found)
        status = {
            "asked": want.status(want.digest),
            "observedGeneration": want.generation,
            "conditions": with_conditions(
                _conditions(found),
                [Condition(ADMITTED, True, "Admitted"), Condition(APPLIED, True, "Applied")],
                now,
            ),
        }
        kept = {**found, "status": {**(found.get("status") or {}), **status}}
        self._store.admit(change.job, change.event, kept).result()
        self._refused.discard(key)

    def _refuse(self, found: Object, refusal: Refusal, now: float) -> None:
        text = str(refusal)
        generation = found["metadata"].get("generation", 0)
        status = found.get("status") or {}
        if (
            message_of(_conditions(found), ADMITTED) == text
            and status.get("observedGeneration") == generation
        ):
            return
        conditions = with_conditions(
            _conditions(found), [Condition(ADMITTED, False, refusal.reason, text)], now
        )
        said = {"phase": "refused", "reason": text, "observedGeneration": generation}
        self._objects.note(self._status(found, {**said, "conditions": conditions}))

    def _follow(self, step: Follow, found: Object, job: Job) -> None:
        """Carry out the valid parts of the request; report the others."""
        mistakes = list(self._wishes(step, job)) if not job.terminal else []
        if step.altered:
            mistakes.append(
                "the spec does not change after submit, but for paused and replicas: make a new job"
            )
        condition = (
            Condition(APPLIED, False, "CannotApply", "; ".join(mistakes))
            if mistakes
            else Condition(APPLIED, True, "Applied")
        )
        status = {
            "asked": step.asked.status(step.digest),
            "observedGeneration": step.asked.generation,
            "conditions": with_conditions(_conditions(found), [condition], self._clock()),
        }
        self._objects.note(self._status(found, status))

    def _wishes(self, step: Follow, job: Job) -> Iterable[str]:
        if step.paused is not None:
            act = self._services.actions.pause if step.paused else self._services.actions.resume
            yield from _told(lambda: act(MANAGER, job.id))
        if step.scaled:
            yield from _told(lambda: self._services.actions.scale(MANAGER, job.id, step.size))

    def _status(self, found: Object, status: dict[str, Any]) -> Object:
        metadata = found["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        return self._api.patch(GPU_JOBS, metadata["name"], body, metadata["namespace"], part="status")


def _told(act: Callable[[], object]) -> Iterable[str]:
    """Yield the reason why a user action cannot be carried out, in words; raise transient errors."""
    try:
        act()
    except (Unreachable, Fenced, StaleVersion):
        raise
    except GrusError as error:
        yield str(error)


def _age_and_key(found: Object) -> tuple[str, Key]:
    """Return the sort key for the oldest first, so that older objects are served first."""
    return str(found["metadata"]["creationTimestamp"]), _key(found)


def _key(found: Object) -> Key:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


def _finalizers(found: Object) -> list[str]:
    return list(found["metadata"].get("finalizers") or ())


def _conditions(found: Object) -> list[dict[str, Any]]:
    return list((found.get("status") or {}).get("conditions") or ())
