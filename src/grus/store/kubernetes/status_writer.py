"""Recording: make writes of jobs durable in a cluster, each as one conditional update of a GpuJob's status.

An update names the state of the object that was seen (`resourceVersion`), so of two writers one loses. A lost
update alone proves little, since others may have changed another part of the object. So it is read again, and
the write has failed only if its record, or the leader term (`epoch`) of its writer, is not as expected. The
same read settles what became of a request that was never answered.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Conflicts, Exists, Invalid, Missing, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import GPU_JOBS
from grus.model.backoff import backoff
from grus.model.errors import BadInput, Conflict, Fenced, GrusError, Mistake, StoreFailed
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.store import rules
from grus.store.kubernetes import job_status_codec
from grus.store.write_batch import JobWrite

TRIES = 10
"""Maximum number of tries. A second one means that another writer wrote the object in between, or that an
answer was lost.
"""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
NOTHING: Object = {}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobLocations:
    """Locations of jobs, and functions to look them up."""

    home: Callable[[JobId], Home | None]
    seen: Callable[[Home], Object | None]
    """The newest state of the object that has been seen."""
    note: Callable[[Object], None]
    """Function that records an object as it was found."""


@dataclass(frozen=True, slots=True)
class ObjectFactory:
    """Functions and values for creating objects of new jobs."""

    place: Callable[[Job], str]
    """The namespace that a job goes to, prepared for it."""
    finalizers: Sequence[str] = ()


class Recorder:
    """Writer of records. Any thread may call; different jobs are written at the same time."""

    def __init__(
        self,
        api: Api,
        places: JobLocations,
        making: ObjectFactory,
        *,
        pool: ThreadPoolExecutor,
        epoch: Callable[[], int],
        valid: Callable[[], bool],
        lost: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        self._api = api
        self._places = places
        self._making = making
        self._pool = pool
        self._epoch = epoch
        self._valid = valid
        self._lost = lost
        self._now = now
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._under_way: set[tuple[str, str]] = set()
        self.given: dict[JobId, Object] = {}
        """Objects that users made, for jobs that are about to be recorded in them."""

    def close(self) -> None:
        """Stop; writes that wait for their repetition give up."""
        self._closing.set()

    def makes(self, namespace: str, name: str) -> bool:
        """Return whether this object is being made here just now."""
        with self._lock:
            return (namespace, name) in self._under_way

    def record(self, writes: Sequence[JobWrite]) -> dict[JobId, Exception]:
        """Make writes durable; return the errors of the jobs that failed. Several writes of a job
        become one.
        """
        lanes: dict[JobId, list[JobWrite]] = {}
        for write in writes:
            lanes.setdefault(write.job.id, []).append(write)
        if len(lanes) == 1:
            failed = [self._try(lane) for lane in lanes.values()]
        else:
            failed = list(self._pool.map(self._try, lanes.values()))
        return {id_: why for id_, why in zip(lanes, failed, strict=True) if why is not None}

    def _try(self, lane: Sequence[JobWrite]) -> Exception | None:
        try:
            self._record(lane)
        except Exception as error:  # noqa: BLE001 - the edge of a task: whoever waits for the write hears of it
            return _told(lane[-1].job.id, error)
        return None

    def _record(self, lane: Sequence[JobWrite]) -> None:
        if not lane[0].new:
            self._put(self._newest(lane[0].job.id), lane)
        elif (item := self.given.get(lane[0].job.id)) is not None:
            self._put(item, lane, item.get("status") or {})
        else:
            self._make(lane)

    # ---------------------------------------------------------------------------------------- an existing job

    def _put(self, item: Object, lane: Sequence[JobWrite], more: Object = NOTHING) -> None:
        """Update the object. `more` goes into the status of an object that has no record yet."""
        last = lane[-1]
        events = [(write.job.version, write.event) for write in lane if write.event is not None]
        for tried in range(TRIES):
            if not self._expected(item, lane) and self._stands(item, lane):
                return
            self.require_leadership()
            wanted = job_status_codec.recorded(
                item, last.job, last.body, events, epoch_now=self._epoch(), now=self._now()
            )
            try:
                self._places.note(self._api.replace(GPU_JOBS, wanted, part="status"))
                return
            except Conflicts:
                pass
            except Unreachable as trouble:
                self._wait_or_raise(trouble, tried)
            item = self._read(job_status_codec.home(item), last.job.id)
            if more and not job_status_codec.record_version(item):
                item = {**item, "status": {**(item.get("status") or {}), **more}}
        raise StoreFailed(f"job {last.job.id} is being changed all the time; try again")

    def _expected(self, item: Object, lane: Sequence[JobWrite]) -> bool:
        """Return whether the object is as the writer believes, apart from parts that do not concern it."""
        return (
            job_status_codec.record_version(item) == lane[0].job.version - 1
            and job_status_codec.epoch(item) <= self._epoch()
        )

    def _stands(self, item: Object, lane: Sequence[JobWrite]) -> bool:
        """Return whether the write had succeeded already; raise if it never can."""
        self._places.note(item)
        there = job_status_codec.found(item)
        first, last = lane[0], lane[-1]
        if there is not None and there.job == last.job:
            return True
        given = [write.epoch for write in lane if write.epoch is not None]
        rules.check_epoch(min(given) if given else None, job_status_codec.epoch(item))
        if there is None:  # never recorded; or somebody has damaged the record, and it is put right
            return False
        if first.new:
            rules.check_new(last.job.id, True)
        rules.check_version(last.job.id, first.job.version - 1, there.job.version)
        return False

    def _newest(self, job: JobId) -> Object:
        where = self._places.home(job)
        if where is None:
            raise rules.no_job(job)
        item = self._places.seen(where)
        if item is None or item["metadata"]["uid"] != where.uid:
            return self._read(where, job)
        return item

    def _read(self, where: Home, job: JobId) -> Object:
        try:
            item = self._api.get(GPU_JOBS, where.name, where.namespace)
        except Missing as error:
            raise rules.no_job(job) from error
        if item["metadata"]["uid"] != where.uid:
            raise rules.no_job(job)
        return item

    # -------------------------------------------------------------------------------------------- a new job

    def _make(self, lane: Sequence[JobWrite]) -> None:
        write = lane[0]
        self.require_leadership()
        namespace = self._making.place(write.job)
        where = namespace, job_status_codec.object_name(write.job)
        with self._lock:
            self._under_way.add(where)
        try:
            item = self._create(write, namespace)
            try:
                self._put(item, lane)
            except GrusError:
                self._undo(item)
                raise
        finally:
            with self._lock:
                self._under_way.discard(where)

    def _create(self, write: JobWrite, namespace: str) -> Object:
        wanted = job_status_codec.new_object(
            write.job,
            namespace=namespace,
            now=self._now(),
            key=write.key,
            finalizers=self._making.finalizers,
        )
        for tried in range(TRIES):
            try:
                return self._api.create(GPU_JOBS, wanted)
            except Exists:
                pass
            except Unreachable as trouble:
                self._wait_or_raise(trouble, tried)
            item = self._look(wanted)
            if item is not None:
                return _ours(item, wanted, write.job)
        raise StoreFailed(f"the object of job {write.job.id} could not be made; try again")

    def _look(self, wanted: Object) -> Object | None:
        try:
            return self._api.get(GPU_JOBS, wanted["metadata"]["name"], wanted["metadata"]["namespace"])
        except Missing:
            return None

    def _undo(self, item: Object) -> None:
        """Remove an object without a record. One that cannot be removed now is removed at the next
        take-over.
        """
        where = job_status_codec.home(item)
        try:
            drop(self._api, item)
        except (Refused, Unreachable) as error:
            log.warning("GpuJob %s/%s stays without a record: %s", where.namespace, where.name, error)

    def _wait_or_raise(self, trouble: Unreachable, tried: int) -> None:
        """Wait before checking a request that may have been carried out; raise if it is pointless."""
        if not trouble.arrived or _too_large(str(trouble)):
            raise trouble
        if tried and self._closing.wait(backoff(tried + 1, FIRST_PAUSE, LONGEST_PAUSE)):
            raise trouble

    def require_leadership(self) -> None:
        """Check the leadership. Only a control plane that has lost it must stop for good; one that cannot
        renew it now may still do so.
        """
        if self._lost():
            raise Fenced("this controller does not lead any more: another one owns the cluster's jobs")
        if not self._valid():
            raise StoreFailed("the leadership could not be renewed; nothing is written until it is")


@contextmanager
def asking() -> Iterator[None]:
    """Convert every error of the API server inside into the store's errors."""
    try:
        yield
    except (Unreachable, Refused) as error:
        raise StoreFailed(f"the cluster did not do what was asked: {error}; try again") from error


def drop(api: Api, item: Object, *, version: str = "") -> None:
    """Remove an object without a recorded job: nothing has to be finished for it."""
    where = job_status_codec.home(item)
    if item["metadata"].get("finalizers"):
        guard = {"uid": where.uid} | ({"resourceVersion": version} if version else {})
        free = api.patch(GPU_JOBS, where.name, {"metadata": {**guard, "finalizers": None}}, where.namespace)
        version = free["metadata"]["resourceVersion"] if version else ""
    api.delete(GPU_JOBS, where.name, where.namespace, uid=where.uid, version=version)


def _ours(item: Object, wanted: Object, job: Job) -> Object:
    """Return the existing object, if it is the one that a lost answer was about."""
    same = item["metadata"].get("annotations") == wanted["metadata"]["annotations"]
    if not same or job_status_codec.record_version(item):
        raise Conflict(f"there is a GpuJob {item['metadata']['name']} already, of another job than {job.id}")
    return item


def _told(job: JobId, error: Exception) -> Exception:
    """Return the error for the caller; errors of the API server become those of the store."""
    if isinstance(error, Invalid) or (isinstance(error, Unreachable | Refused) and _too_large(str(error))):
        told: GrusError = BadInput([Mistake("job", f"cannot be stored in the cluster: {error}")])
    elif isinstance(error, Unreachable | Refused):
        told = StoreFailed(f"could not write job {job}: {error}; try again")
    elif isinstance(error, GrusError):
        return error
    else:
        log.error("job %s could not be written", job, exc_info=error)
        told = StoreFailed(f"could not write job {job}: {error}")
    told.__cause__ = error
    return told


def _too_large(said: str) -> bool:
    """Return whether etcd or the API server reports an object beyond 1.5 MB; sending it again does not
    help.
    """
    return "too large" in said or "too long" in said
