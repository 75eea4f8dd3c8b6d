"""Plain pods, watched and bound: the record of their jobs.

A watch provides the known pods; the only write is the binding. All other changes of such a job are kept in
memory only: the next leader reads them off the pods again.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from grus.engines.kubernetes.nodes import SCHEDULER
from grus.kubernetes.client.api import Api, Conflicts, Missing
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import PODS, Object
from grus.kubernetes.names import DEVICES, EPOCH, JOB, RESERVATION
from grus.model.errors import Fenced, Mistake, NotFound, StaleVersion, StoreFailed
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Event, WorkerStatus, Written
from grus.model.jobs import Desired, Exit, ExitCause, Job, Phase
from grus.operator.plain.pods_as_jobs import is_plain, job_of, plain_id, seats_of, spec_of, status_of
from grus.store import rules
from grus.store.kubernetes.store import Leading

log = logging.getLogger(__name__)

THREADS = 12
"""Bindings under way at a time."""
LABELS, FIELDS = f"!{JOB},!{RESERVATION}", f"spec.schedulerName={SCHEDULER}"

Judge = Callable[[Object, Job], list[Mistake]]
"""Errors against scheduling a pod where it requests; empty if it may be."""


class PlainPods:
    """The plain pods of a cluster. Any thread may use it."""

    def __init__(
        self,
        api: Api,
        *,
        resource: str,
        leadership: Leading,
        judge: Judge,
        grant: Callable[[str], None] = lambda _: None,
        on_refused: Callable[[Object, list[Mistake]], None] = lambda *_: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._resource = resource
        self._leadership = leadership
        self._judge = judge
        self._grant = grant
        self._on_refused = on_refused
        self._clock = clock
        self._lock = threading.RLock()
        self._jobs: dict[JobId, Job] = {}
        self._pods: dict[JobId, Object] = {}
        self._refused: dict[JobId, Object] = {}
        self._arrived = 0
        self._binders = ThreadPoolExecutor(THREADS, thread_name_prefix="bind")
        self.epoch = 0
        self.tell: Callable[[Sequence[Written]], None] = lambda _: None
        """Callback for changes of jobs, set by the code that passes them on."""
        self.tell_worker: Callable[[WorkerStatus], None] = lambda _: None
        self._objects: Reflector | None = None

    def start(self, timeout: float = 60.0) -> None:
        """Read all pods that are there; from then on nothing is missed."""
        self._objects = Reflector(self._api, PODS, labels=LABELS, fields=FIELDS, on_change=self._changed)
        self._objects.wait_synced(timeout)

    def close(self) -> None:
        if self._objects is not None:
            self._objects.close()
        self._binders.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------------------------- reading

    def job(self, id_: JobId) -> Job:
        with self._lock:
            if id_ not in self._jobs:
                raise rules.no_job(id_)
            return self._jobs[id_]

    def jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def workers(self) -> list[WorkerStatus]:
        now = self._clock()
        with self._lock:
            found = [status_of(pod, self._jobs[id_], now) for id_, pod in self._pods.items()]
        return [status for status in found if status is not None]

    def pod(self, id_: JobId) -> Object:
        with self._lock:
            if id_ not in self._pods:
                raise rules.no_job(id_)
            return self._pods[id_]

    def look_again(self) -> None:
        """Queues have changed: what was refused may be welcome now."""
        with self._lock:
            again = list(self._refused.values())
        for pod in again:
            self._changed("MODIFIED", pod)

    # ------------------------------------------------------------------------------------- writing

    def replace(self, job: Job, event: Event | None, epoch: int | None) -> "Future[Job]":
        """Replace the job, as a store does; the first start of a job is a binding."""
        done: Future[Job] = Future()
        try:
            rules.check_epoch(epoch, self.epoch)
            with self._lock:
                before = self.job(job.id)
                rules.check_version(job.id, job.version, before.version)
                if job.seats and not before.seats:
                    return self._binders.submit(self._bind, job, event)
                done.set_result(self._put(_ended_if_over(job, before), event))
        except (NotFound, StaleVersion, Fenced) as error:
            done.set_exception(error)
        return done

    def delete(self, id_: JobId, grace: float) -> None:
        """Ask the pod to end, if it is there and has not been asked yet."""
        with self._lock:
            pod = self._pods.get(id_)
        if pod is None or ("deletionTimestamp" in pod["metadata"] and grace > 0):
            return
        self._require_leadership()
        metadata = pod["metadata"]
        self._grant(metadata["namespace"])
        try:
            self._api.delete(
                PODS, metadata["name"], metadata["namespace"], grace=max(1, round(grace)), uid=metadata["uid"]
            )
        except (Missing, Conflicts):
            log.debug("pod %s/%s is gone already", metadata["namespace"], metadata["name"])

    def _bind(self, job: Job, event: Event | None) -> Job:
        self._require_leadership()
        metadata = self.pod(job.id)["metadata"]
        seat = job.seats[0]
        self._grant(metadata["namespace"])
        notes = {DEVICES: ",".join(seat.devices), EPOCH: str(self.epoch)}
        try:
            self._api.bind(
                metadata["name"], metadata["namespace"], seat.node, uid=metadata["uid"], annotations=notes
            )
        except Conflicts as error:
            raise StaleVersion(f"pod {metadata['namespace']}/{metadata['name']}: {error.text}") from None
        except Missing:
            raise rules.no_job(job.id) from None
        with self._lock:
            known = self._jobs.get(job.id)
            if known is None:
                raise rules.no_job(job.id)
            if known.seats:  # the watch was faster
                return known
            return self._put(replace(job, phase=Phase.RUNNING), event)

    def _require_leadership(self) -> None:
        if self._leadership.epoch != self.epoch:
            raise Fenced("another controller leads now")
        if not self._leadership.valid():
            raise StoreFailed("the leadership could not be renewed; nothing is done until it is")

    def _put(self, job: Job, event: Event | None) -> Job:
        """Record the job as the next version, and report it; under the lock, so that reports are in order."""
        stored = replace(job, version=self._jobs[job.id].version + 1 if job.id in self._jobs else 1)
        if stored.terminal:
            self._jobs.pop(job.id, None)
            self._pods.pop(job.id, None)
        else:
            self._jobs[job.id] = stored
        self.tell([(stored, event)])
        return stored

    # ------------------------------------------------------------------------------------- hearing

    def _changed(self, kind: str, pod: Object) -> None:
        if not is_plain(pod):
            return
        with self._lock:
            if kind == "DELETED":
                self._gone(pod)
            elif plain_id(pod) in self._jobs:
                self._news(pod)
            else:
                self._arrival(pod)

    def _arrival(self, pod: Object) -> None:
        seats = seats_of(pod)
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        placed_by_others = bool(pod["spec"].get("nodeName")) and not seats
        if over or placed_by_others or ("deletionTimestamp" in pod["metadata"] and not seats):
            self._refused.pop(plain_id(pod), None)
            return
        spec, mistakes = spec_of(pod, self._resource)
        self._arrived += 1
        job = job_of(pod, spec, self._arrived)
        if not seats:
            mistakes += self._judge(pod, job)
            if mistakes:
                self._refused[job.id] = pod
                self._on_refused(pod, mistakes)
                return
        self._refused.pop(job.id, None)
        self._pods[job.id] = pod
        text = f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} asks for a place"
        self._put(job, Event(at=job.submitted_at, kind="submitted", text=text, job=job.id))

    def _news(self, pod: Object) -> None:
        job = self._jobs[plain_id(pod)]
        self._pods[job.id] = pod
        seats = seats_of(pod)
        if seats and not job.seats:
            job = self._put(job_of(pod, job.spec, 0), None)
        elif pod["spec"].get("nodeName") and not seats:
            self._end(job, "somebody else has placed it")
            return
        if "deletionTimestamp" in pod["metadata"] and job.desired is not Desired.STOP:
            if not job.seats:
                self._end(job, "its pod was deleted")
                return
            job = self._put(replace(job, desired=Desired.STOP, reason="its pod was deleted"), None)
        status = status_of(pod, job, self._clock())
        if status is not None:
            self.tell_worker(status)

    def _gone(self, pod: Object) -> None:
        id_ = plain_id(pod)
        self._refused.pop(id_, None)
        job = self._jobs.get(id_)
        if job is None:
            return
        status = status_of(pod, job, self._clock(), gone=True)
        self._end(job, "its pod is gone")
        if status is not None:
            self.tell_worker(status)

    def _end(self, job: Job, why: str) -> None:
        now = self._clock()
        over = replace(
            job,
            phase=Phase.STOPPED,
            seats=(),
            ended_at=now,
            exit=Exit(ExitCause.STOPPED, None, why),
            reason=why,
        )
        self._put(over, Event(at=now, kind="stopped", text=why, job=job.id, attempt=job.attempt))


def _ended_if_over(job: Job, before: Job) -> Job:
    """A pod starts once: what would wait to start again is over."""
    if not before.seats or job.seats or job.terminal:
        return job
    why = "its pod was deleted to make room; who owns it makes another"
    return replace(job, phase=Phase.STOPPED, ended_at=job.ended_at or job.started_at, reason=why)


def job_of_worker(worker: WorkerId) -> JobId:
    return JobId(worker.partition(".")[0])
