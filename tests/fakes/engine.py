"""A simulated Engine in virtual time: deterministic, no process, no thread, no clock of its own.

A test says what workers do: `exit`, `lose`, `up`; those that obey end the moment they are asked to, the
others when `advance` passes their grace. The workers outlive the object: `reborn` is a new engine on the same
workers, as after the death of a control plane.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from grus.model.errors import Fenced, NotFound
from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.model.interfaces import Usage, WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause
from grus.model.nodes import Node

Listener = Callable[[WorkerStatus], None]


@dataclass
class Living:
    """One simulated worker."""

    spec: WorkerSpec
    status: WorkerStatus
    kill_at: float | None = None
    control: str = ""
    report: str = ""


@dataclass
class Workers:
    """What outlives a control plane."""

    epoch: int = 0
    known: dict[WorkerId, Living] = field(default_factory=dict)
    logs: dict[WorkerId, bytes] = field(default_factory=dict)
    started: list[WorkerId] = field(default_factory=list)
    """Every process that was ever begun, in order; an id twice is a bug of the simulated engine."""


class SimulatedEngine:
    """See `grus.model.interfaces.Engine` for what it promises."""

    def __init__(self, nodes: Iterable[Node], *, now: float = 1000.0, workers: Workers | None = None) -> None:
        self.pool = tuple(nodes)
        self.now = now
        self.up_at_once = True
        """A started worker runs at once; else when the test says `up`."""
        self.obedient = True
        """Asked to stop, a worker ends at once with code 0; else it is killed when its grace is over."""
        self.cannot_start: set[str] = set()
        """Starts of worker ids that contain one of these words end with cause START."""
        self.workers_alive = workers or Workers()
        self.calls: list[tuple[str, str]] = []
        self.trap: Callable[[str], None] = lambda _: None
        """Called before and after each effect; a test may let it raise."""
        self._epoch = 0
        self._listeners: list[Listener] = []

    def reborn(self) -> "SimulatedEngine":
        """A new engine object that finds the same workers."""
        again = SimulatedEngine(self.pool, now=self.now, workers=self.workers_alive)
        again.up_at_once, again.obedient, again.cannot_start = (
            self.up_at_once,
            self.obedient,
            self.cannot_start,
        )
        again.trap = self.trap
        return again

    # ------------------------------------------------------------------------- what a test says

    def find(self, words: str) -> WorkerId:
        """The one living worker whose id contains this."""
        found = [id_ for id_, one in self.workers_alive.known.items() if words in id_ and _alive(one)]
        assert len(found) == 1, f"{len(found)} living workers match {words}: {found}"
        return found[0]

    def reports(self, words: str, line: str) -> None:
        """The one living worker that matches has written this line."""
        self.workers_alive.known[self.find(words)].report = line

    def rings(self, words: str, line: str) -> None:
        """The one living worker that matches has written this line and rung its bell."""
        self.reports(words, line)
        self._change(self.find(words), said=line)

    def alive(self, words: str = "") -> list[WorkerId]:
        return [id_ for id_, one in self.workers_alive.known.items() if words in id_ and _alive(one)]

    def up(self, words: str = "") -> None:
        """Every matching worker that is starting runs."""
        for id_ in self.alive(words):
            if self.workers_alive.known[id_].status.state is WorkerState.STARTING:
                self._change(id_, state=WorkerState.RUNNING)

    def exit(self, words: str, code: int = 0) -> None:
        """Its main process ends by itself."""
        cause = ExitCause.DONE if code == 0 else ExitCause.CODE
        self._end(self.find(words), Exit(cause, code, "" if code == 0 else f"exit code {code}"))

    def finish(self, words: str) -> None:
        """Every matching worker ends by itself with code 0."""
        for id_ in self.alive(words):
            self._end(id_, Exit(ExitCause.DONE, 0))

    def fail(self, words: str, exit_: Exit) -> None:
        """Its main process ends in this way."""
        self._end(self.find(words), exit_)

    def kill(self, words: str, signal: int = 9) -> None:
        self._end(self.find(words), Exit(ExitCause.SIGNAL, signal, f"killed by signal {signal}"))

    def lose(self, words: str) -> None:
        """Its supervisor is gone."""
        self._end(self.find(words), Exit(ExitCause.LOST, None, "its supervisor is gone"))

    def repeat(self, words: str) -> None:
        """Say again what is known of a worker, as a late message would."""
        for id_, one in self.workers_alive.known.items():
            if words in id_:
                self._tell(one.status)

    def advance(self, seconds: float) -> None:
        """Let time pass; graces run out in order."""
        self.now += seconds
        due = [
            (one.kill_at, id_)
            for id_, one in self.workers_alive.known.items()
            if _alive(one) and one.kill_at is not None and one.kill_at <= self.now
        ]
        for _, id_ in sorted(due):
            self._end(id_, Exit(ExitCause.STOPPED, 137, "killed when its grace was over"))

    # ------------------------------------------------------------------------------ the port

    def open(self, epoch: int) -> None:
        self._fence(epoch)
        self._epoch = epoch
        self.workers_alive.epoch = epoch

    def nodes(self) -> tuple[Node, ...]:
        return self.pool

    def mechanisms(self) -> dict[str, str]:
        return {"isolation": "none: everything is simulated"}

    def start(self, worker: WorkerSpec) -> None:
        with self._called("start", worker.id):
            self._start(worker)

    def _start(self, worker: WorkerSpec) -> None:
        if worker.id in self.workers_alive.known:
            return
        self.workers_alive.started.append(worker.id)
        status = WorkerStatus(
            id=worker.id,
            job=worker.job,
            attempt=worker.attempt,
            state=WorkerState.STARTING,
            started_at=self.now,
        )
        self.workers_alive.known[worker.id] = Living(worker, status)
        self.workers_alive.logs[worker.id] = f"{worker.id} begins\n".encode()
        self._tell(status)
        if any(words in worker.id for words in self.cannot_start):
            self._end(worker.id, Exit(ExitCause.START, None, "there is no such program"))
        elif self.up_at_once:
            self._change(worker.id, state=WorkerState.RUNNING)

    def stop(self, worker: WorkerId, grace: float) -> None:
        with self._called("stop", worker):
            self._stop(worker, grace)

    def _stop(self, worker: WorkerId, grace: float) -> None:
        one = self.workers_alive.known.get(worker)
        if one is None or not _alive(one):
            return
        kill_at = self.now + grace
        one.kill_at = kill_at if one.kill_at is None else min(one.kill_at, kill_at)
        if self.obedient:
            self._end(worker, Exit(ExitCause.STOPPED, 0, "ended with exit code 0 when asked to stop"))
        elif one.kill_at <= self.now:
            self._end(worker, Exit(ExitCause.STOPPED, 137, "killed when its grace was over"))

    def publish(self, worker: WorkerId, control: str) -> None:
        with self._called("publish", worker):
            if worker in self.workers_alive.known:
                self.workers_alive.known[worker].control = control

    def workers(self) -> tuple[WorkerStatus, ...]:
        return tuple(one.status for one in self.workers_alive.known.values())

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def forget(self, worker: WorkerId) -> None:
        with self._called("forget", worker):
            one = self.workers_alive.known.get(worker)
            if one is not None and not _alive(one):
                del self.workers_alive.known[worker]

    def usage(self) -> tuple[Usage, ...]:
        return tuple(Usage(worker=id_, at=self.now, cpu_seconds=1.0, memory=1) for id_ in self.alive())

    def report(self, worker: WorkerId) -> str:
        one = self.workers_alive.known.get(worker)
        return one.report if one is not None else ""

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        if worker not in self.workers_alive.logs:
            raise NotFound(f"there is no log of {worker}")
        data = self.workers_alive.logs[worker]
        begin = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        piece = data[begin : begin + limit]
        return piece, begin + len(piece)

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        return tuple(id_ for id_ in self.workers_alive.logs if id_.startswith(f"{job}."))

    def remove_logs(self, job: JobId) -> None:
        for worker in [id_ for id_ in self.workers_alive.logs if id_.startswith(f"{job}.")]:
            del self.workers_alive.logs[worker]

    def close(self) -> None:
        self._listeners.clear()

    # -------------------------------------------------------------------------------- checks

    def held(self) -> dict[DeviceId, int]:
        """Micro-GPUs of each device that living workers are bound to."""
        found: dict[DeviceId, int] = {}
        for one in self.workers_alive.known.values():
            if _alive(one):
                for device in one.spec.devices:
                    found[device] = found.get(device, 0) + one.spec.share
        return found

    # ------------------------------------------------------------------------------- inside

    @contextmanager
    def _called(self, verb: str, worker: WorkerId) -> Iterator[None]:
        self._fence(self._epoch)
        self.calls.append((verb, worker))
        self.trap(f"before {verb} {worker}")
        yield
        self.trap(f"after {verb} {worker}")

    def _fence(self, epoch: int) -> None:
        if epoch < self.workers_alive.epoch:
            raise Fenced(f"epoch {epoch} is over; {self.workers_alive.epoch} has begun")

    def _end(self, worker: WorkerId, exit_: Exit) -> None:
        self._change(worker, state=WorkerState.ENDED, ended_at=self.now, exit=exit_)

    def _change(self, worker: WorkerId, **changes: object) -> None:
        one = self.workers_alive.known[worker]
        one.status = replace(one.status, **changes)  # type: ignore[arg-type]  # keywords of many types
        self._tell(one.status)

    def _tell(self, status: WorkerStatus) -> None:
        for listener in list(self._listeners):
            listener(status)


def _alive(one: Living) -> bool:
    return one.status.state is not WorkerState.ENDED
