"""Watcher of the workers' pods: reports every change of a worker's state.

Records change under `lock` only, and one thread notifies the listeners of changes, in order. The same thread
checks, a few times a second, the conditions that depend on time alone (a silent node, a missing last report).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from grus.concurrency.background_thread import BackgroundThread
from grus.engines.kubernetes import pod_status, worker_registry
from grus.engines.kubernetes.node_inventory import KubernetesPool
from grus.engines.kubernetes.nodes import terminal
from grus.engines.kubernetes.reservations import device_of
from grus.engines.kubernetes.worker_registry import PodRecord
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import JOB, RESERVATION, WAS
from grus.model.errors import NotFound
from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import Exit

TURN = 0.25
"""Seconds between two looks at what time alone changes."""


class Watcher:
    """Lives from `Engine.open` to `Engine.close`."""

    def __init__(
        self,
        pool: KubernetesPool,
        resource: str,
        within: str,
        system: str,
        tell: Callable[[WorkerStatus], None],
        where: Callable[[JobId], Home],
    ) -> None:
        self.lock = threading.RLock()
        self.records: dict[WorkerId, PodRecord] = {}
        self.forgotten: dict[WorkerId, str] = {}
        """Uid of the pod of each worker that is forgotten while its pod is still there."""
        self.reservations: dict[DeviceId, Object] = {}
        self.leaving: dict[DeviceId, bool] = {}
        """Devices whose reservation is being removed, and whether by force."""
        self._slices: dict[DeviceId, set[WorkerId]] = {}
        """Workers that run (or are about to) on a part of each device."""
        self.on_doom: Callable[[PodRecord, Exit], None] = _nobody
        self.on_end: Callable[[PodRecord, WorkerStatus], None] = _nobody
        self.on_unused: Callable[[DeviceId, bool], None] = _nobody
        self.on_turn: Callable[[], None] = _nobody
        self._pool = pool
        self._resource = resource
        self._within = within
        self._system = system
        self._tell = tell
        self._where = where
        self._news: deque[WorkerStatus] = deque()
        self._thread = BackgroundThread("grus-engine", self._round, first=TURN, retry=TURN)

    def start(self) -> None:
        """Start to report changes; a caller that reads the workers now sees the state at this point."""
        with self.lock:
            self._news.clear()
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    # -------------------------------------------------------------------------------- what is seen

    def pod_changed(self, what: str, pod: Object) -> None:
        self._pool.pod_changed(what, pod)
        if RESERVATION in (pod["metadata"].get("labels") or {}):
            self._reservation_changed(what, pod)
        worker = pod_status.worker_of(pod)
        was = (pod["metadata"].get("annotations") or {}).get(WAS)
        if not self._lives_here(pod, worker or was or ""):
            return
        if was is not None:
            with self.lock:
                self.forgotten.pop(was, None)
        if worker is None or (self._within and pod["metadata"].get("namespace") != self._within):
            return
        with self.lock:
            if self.forgotten.get(worker) == pod["metadata"]["uid"]:
                if what == "DELETED":
                    del self.forgotten[worker]
                return
            record = self.records.get(worker)
            if what == "DELETED":
                if record is not None and record.pod is not None and _same(record.pod, pod):
                    self._removed(record, pod)
                return
            if record is None:
                record = worker_registry.found(pod, self._resource)
                self.add(record)
            elif record.pod is not None and not _same(record.pod, pod):
                return  # another pod has the same name: not ours
            self.look(record, pod)

    def _lives_here(self, pod: Object, worker: str) -> bool:
        """False for a pod that names a job of another namespace: users write what they like on their pods."""
        labeled = str((pod["metadata"].get("labels") or {}).get(JOB, ""))
        for job in {worker.partition(".")[0], labeled} - {""}:
            with suppress(NotFound):
                if self._where(JobId(job)).namespace != pod["metadata"].get("namespace"):
                    return False
        return True

    def node_changed(self, what: str, node: Object) -> None:
        self._pool.node_changed(what, node)
        if what == "DELETED":
            self._look_at_nodes([node["metadata"]["name"]])

    def add(self, record: PodRecord) -> None:
        """A worker that was not known. Under `lock`."""
        self.records[record.status.id] = record
        if record.sliced:
            for device in record.devices:
                self._slices.setdefault(device, set()).add(record.status.id)

    def look(self, record: PodRecord, pod: Object | None = None) -> None:
        """Update the record with the worker's pod: a new state of it or none. Under `lock`."""
        if pod is not None and (record.pod is None or _newer(pod, record.pod)):
            worker_registry.take(record, pod)
        if record.ended or record.pod is None or record.ending is not None:
            return
        view = pod_status.view(record.pod, record.moments, time.time(), self._pool.gone(record.node))
        record.moments, record.again = view.moments, view.again
        if view.doomed is not None and not record.doomed:
            record.doomed = True
            self.on_doom(record, view.doomed)
        if view.status.state is WorkerState.ENDED:
            if not record.judged:
                record.judged = True
                self.on_end(record, view.status)
        elif view.status != record.status:
            record.status = view.status
            self._report(view.status)

    def end(self, record: PodRecord, status: WorkerStatus) -> None:
        """Record the end of a worker, from any source; only the first one counts."""
        with self.lock:
            if record.ended or record.ending is not None:
                return
            record.ending = status
            for device in record.devices if record.sliced else ():
                self._slices.get(device, set()).discard(status.id)
                self._release(device)
            if not self._holds_reservation(record):
                self._finish(record)

    def end_as(self, record: PodRecord, exit_: Exit) -> None:
        """Record the end where there is no pod (any more) that shows it."""
        said = replace(record.status, state=WorkerState.ENDED, exit=exit_, ended_at=time.time())
        self.end(record, said)

    # -------------------------------------------------------------------------------- reservations

    def _reservation_changed(self, what: str, pod: Object) -> None:
        device = device_of(pod)
        if not device or pod["metadata"].get("namespace") != self._system:
            return
        with self.lock:
            if what == "DELETED":
                self.reservations.pop(device, None)
                self.leaving.pop(device, None)
            else:
                self.reservations[device] = pod
            if what == "DELETED" or terminal(pod):
                self._finish_those_who_wait()

    def _finish_those_who_wait(self) -> None:
        for record in list(self.records.values()):
            if record.ending is not None and not self._holds_reservation(record):
                self._finish(record)

    def _holds_reservation(self, record: PodRecord) -> bool:
        """Return whether a GPU is still reserved for slices of which this was the last. Under `lock`."""
        return record.sliced and any(
            device in self.reservations
            and not terminal(self.reservations[device])
            and not self._slices.get(device)
            and not self._gone(device)
            for device in record.devices
        )

    def _gone(self, device: DeviceId) -> bool:
        return bool(self._pool.gone(device.rpartition("/")[0]))

    def _release(self, device: DeviceId) -> None:
        """Have a reservation removed that no slice needs (any more). Under `lock`."""
        if device not in self.reservations or self._slices.get(device):
            return
        by_force = self._gone(device)
        if device not in self.leaving or (by_force and not self.leaving[device]):
            self.leaving[device] = by_force
            self.on_unused(device, by_force)

    def _release_unused(self) -> None:
        """Release leftover reservations: an engine died
        between a slice's end and the release, or a node did.
        """
        with self.lock:
            for device in list(self.reservations):
                self._release(device)
            if self.leaving:
                self._finish_those_who_wait()

    # ---------------------------------------------------------------------------------- the thread

    def _round(self) -> float:
        self._look_at_due()
        self.on_turn()
        while self._news:
            self._tell(self._news.popleft())
        return TURN

    def _look_at_due(self) -> None:
        now = time.time()
        with self.lock:
            for record in self.records.values():
                if record.again is not None and record.again <= now:
                    self.look(record)
        self._look_at_nodes(node for node in self._pool.silent() if self._pool.gone(node))
        self._release_unused()

    def _look_at_nodes(self, nodes: Iterable[str]) -> None:
        names = frozenset(nodes)
        if not names:
            return
        with self.lock:
            for record in list(self.records.values()):
                if record.node in names:
                    self.look(record)

    def _removed(self, record: PodRecord, pod: Object) -> None:
        if record.ended or record.judged:
            return
        record.judged = True
        worker_registry.take(record, pod)
        self.end_as(record, pod_status.removed(pod))

    def _finish(self, record: PodRecord) -> None:
        """Report the end; a missed start is reported first,
        because a worker may end before any check saw it run.
        """
        status, record.ending = record.ending, None
        assert status is not None
        if record.status.state is WorkerState.STARTING and status.started_at is not None:
            self._report(replace(status, state=WorkerState.RUNNING, ended_at=None, exit=None))
        record.status, record.again = status, None
        self._report(status)

    def _report(self, status: WorkerStatus) -> None:
        self._news.append(status)
        self._thread.wake()


def _same(one: Object, other: Object) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"])


def _newer(one: Object, other: Object) -> bool:
    return int(one["metadata"]["resourceVersion"]) >= int(other["metadata"]["resourceVersion"])


def _nobody(*_: object) -> None:
    """Ignore the change: the default when no listener is registered."""
