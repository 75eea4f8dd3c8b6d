"""One engine out of two: workers of GpuJobs in their own, plain pods as they are. By the worker's id."""

from collections.abc import Callable

from grus.concurrency.listeners import Listeners
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Engine, WorkerSpec, WorkerStatus
from grus.operator.plain.pod_binding import PlainPods, job_of_worker
from grus.operator.plain.pods_as_jobs import is_plain_id


class EngineWithPods:
    """See `grus.model.interfaces.Engine`. A plain pod starts by being bound, which is its record."""

    def __init__(self, engine: Engine, pods: PlainPods) -> None:
        self._engine = engine
        # As the engine does it: these concern no plain pod.
        self.open, self.nodes, self.mechanisms = engine.open, engine.nodes, engine.mechanisms
        self.usage, self.close = engine.usage, engine.close
        self._pods = pods
        self._listeners: Listeners[WorkerStatus] = Listeners("changes of plain pods")
        pods.tell_worker = self._listeners.tell

    def start(self, worker: WorkerSpec) -> None:
        if not is_plain_id(worker.id):
            self._engine.start(worker)

    def stop(self, worker: WorkerId, grace: float) -> None:
        if is_plain_id(worker):
            self._pods.delete(job_of_worker(worker), grace)
        else:
            self._engine.stop(worker, grace)

    def publish(self, worker: WorkerId, control: str) -> None:
        if not is_plain_id(worker):
            self._engine.publish(worker, control)

    def workers(self) -> tuple[WorkerStatus, ...]:
        return (*self._engine.workers(), *self._pods.workers())

    def subscribe(self, listener: Callable[[WorkerStatus], None]) -> Callable[[], None]:
        ways_out = (self._engine.subscribe(listener), self._listeners.add(listener))

        def leave() -> None:
            for way_out in ways_out:
                way_out()

        return leave

    def forget(self, worker: WorkerId) -> None:
        if not is_plain_id(worker):
            self._engine.forget(worker)

    def report(self, worker: WorkerId) -> str:
        return "" if is_plain_id(worker) else self._engine.report(worker)

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        if is_plain_id(worker):
            raise NotFound("the log of a plain pod is read with kubectl logs")
        return self._engine.log(worker, offset, limit)

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        return () if is_plain_id(job) else self._engine.logged(job)

    def remove_logs(self, job: JobId) -> None:
        if not is_plain_id(job):
            self._engine.remove_logs(job)
