"""The simulated machines: workers with a will of their own, nodes that come and go, news that gets lost.

`Machines` is what one control plane sees of them (its engine); `Pool` outlives control planes. What a worker
does follows from its id and from the moods of the moment: it boots, hangs, runs for a while and ends in some
way, obeys, or goes on until it is killed.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from grus.model.errors import GrusError
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause
from grus.model.nodes import Health, Node
from tests.fakes.engine import Living, SimulatedEngine, Workers
from tests.trust.chance import dice, one_of

STOPPED = Exit(ExitCause.STOPPED, 0, "ended with exit code 0 when asked to stop")
OVER = Exit(ExitCause.STOPPED, 137, "killed when its grace was over")
ENDS = {
    "done": Exit(ExitCause.DONE, 0),
    "code": Exit(ExitCause.CODE, 1, "exit code 1"),
    "signal": Exit(ExitCause.SIGNAL, 9, "killed by signal 9"),
    "lost": Exit(ExitCause.LOST, None, "its supervisor is gone"),
    "memory": Exit(ExitCause.GPU_MEMORY, 1, "CUDA out of memory"),
    "out": Exit(ExitCause.CODE, 75, "exit code 75"),
}
CANNOT = Exit(ExitCause.START, None, "there is no such program")


class Around(Protocol):
    """What the machines need of the world."""

    def wall(self) -> float: ...

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do it when so much true time has passed."""
        ...

    def effect(self, engine: "Machines", verb: str, worker: WorkerId, spec: WorkerSpec | None) -> None:
        """An effect is about to be carried out, and was not refused."""
        ...

    def begun(self, spec: WorkerSpec) -> None:
        """A process was started."""
        ...

    def at_effect(self, place: str) -> None:
        """The control plane may die here, or stand still."""
        ...

    def message(self, fate: str, status: WorkerStatus) -> None:
        """What became of a message."""
        ...

    def spec_of(self, job: JobId) -> "Nature": ...


@dataclass(frozen=True, slots=True)
class Nature:
    """How workers of one job are."""

    poisoned: bool = False
    """They can never start."""
    endless: bool = False
    """They end only when asked to."""
    meets: bool = False
    """They say where they can be joined."""
    tries: bool = False
    """They report how well they do."""


@dataclass
class Moods:
    """What goes wrong at the moment; all parts of one."""

    lost: float = 0.0
    """Of messages."""
    late: float = 0.0
    twice: float = 0.0
    deaf: float = 0.0
    """Of workers that are asked to stop: they go on until they are killed."""
    undead: float = 0.0
    """Of workers that are killed: their death is proven only much later."""
    stuck: float = 0.0
    """Of workers that are started: they never run."""
    failing: float = 0.0
    """Of attempts: they end badly."""
    refusing: float = 0.0
    """Of effects: the engine is in trouble."""


class Trouble(GrusError):
    """The engine could not do it now."""


@dataclass
class Pool:
    """Nodes and workers as they really are."""

    whole: tuple[Node, ...]
    gone: set[NodeId] = field(default_factory=set)
    """Nodes that nobody can reach; their workers go on."""
    ill: dict[DeviceId, Health] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    living: dict[JobId, dict[WorkerId, Living]] = field(default_factory=dict)
    finished: set[tuple[JobId, int]] = field(default_factory=set)
    """Attempts of which a worker has ended by itself, with code 0."""
    engines: "list[Machines]" = field(default_factory=list)
    """Of the control planes that are alive."""
    waiting: list[tuple[NodeId, Callable[[], None]]] = field(default_factory=list)
    """What cannot reach its node until that is back."""
    moods: Moods = field(default_factory=Moods)
    messages: int = 0
    seen: tuple[Node, ...] | None = None

    def forget(self, removed: set[JobId]) -> None:
        """Of these there is no record any more: stages asked for again by their key get the same ids."""
        self.workers.started = [id_ for id_ in self.workers.started if id_.split(".")[0] not in removed]
        self.finished = {one for one in self.finished if one[0] not in removed}

    def nodes(self) -> tuple[Node, ...]:
        """As they look from outside."""
        if self.seen is None:
            self.seen = tuple(
                replace(
                    node,
                    devices=tuple(
                        replace(device, health=self.ill.get(device.id, Health.HEALTHY))
                        for device in node.devices
                    ),
                )
                for node in self.whole
                if node.id not in self.gone
            )
        return self.seen

    def vanish(self, node: NodeId) -> None:
        self.gone.add(node)
        self.seen = None

    def come_back(self, node: NodeId) -> None:
        self.gone.discard(node)
        self.seen = None
        reached = [do for where, do in self.waiting if where == node]
        self.waiting = [one for one in self.waiting if one[0] != node]
        for do in reached:
            do()

    def health(self, device: DeviceId, health: Health) -> None:
        if health is Health.HEALTHY:
            self.ill.pop(device, None)
        else:
            self.ill[device] = health
        self.seen = None

    def reach(self, node: NodeId, do: Callable[[], None]) -> None:
        """Now, or when the node is back."""
        if node in self.gone:
            self.waiting.append((node, do))
        else:
            do()

    def alive(self) -> list[WorkerId]:
        return [worker for mine in self.living.values() for worker in mine]


class Machines(SimulatedEngine):
    """The engine of one control plane."""

    def __init__(self, pool: Pool, around: Around) -> None:
        super().__init__((), workers=pool.workers)
        self._pool = pool
        self._around = around
        pool.engines.append(self)

    @property
    def now(self) -> float:
        return self._around.wall()

    @now.setter
    def now(self, _: float) -> None:
        """The world has the clock."""

    @property
    def epoch(self) -> int:
        return self._epoch

    def nodes(self) -> tuple[Node, ...]:
        return self._pool.nodes()

    def die(self) -> None:
        if self in self._pool.engines:
            self._pool.engines.remove(self)
        self._listeners.clear()

    @contextmanager
    def _called(self, verb: str, worker: WorkerId) -> Iterator[None]:
        self._around.at_effect(f"before {verb}")
        self._fence(self._epoch)
        pool = self._pool
        if pool.moods.refusing and dice("refusing", verb, worker, pool.messages) < pool.moods.refusing:
            raise Trouble("the engine is busy")
        known = pool.workers.known.get(worker)
        self._around.effect(self, verb, worker, known.spec if known is not None else None)
        yield
        self._around.at_effect(f"after {verb}")

    # ------------------------------------------------------------------------------ what workers do

    def _start(self, worker: WorkerSpec) -> None:
        pool = self._pool
        if worker.id in pool.workers.known:
            return
        nature, moods = self._around.spec_of(worker.job), pool.moods
        self.up_at_once = False
        pool.living.setdefault(worker.job, {})
        super()._start(worker)
        pool.living[worker.job][worker.id] = pool.workers.known[worker.id]
        self._around.begun(worker)
        if nature.poisoned:
            self._end(worker.id, CANNOT)
        elif dice("stuck", worker.id) >= moods.stuck:
            boot = one_of((0.0, 0.0, 0.3, 2.0, 8.0), "boot", worker.id)
            self._soon(worker.id, boot, lambda: self._is_up(worker, nature))

    def _is_up(self, worker: WorkerSpec, nature: Nature) -> None:
        self._change(worker.id, state=WorkerState.RUNNING)
        setup = worker.id.endswith(".setup.0.0")
        if nature.meets and not setup:
            place = f"127.0.0.1:{20_000 + int(dice('address', worker.id) * 10_000)}"
            line = json.dumps({"at": self.now, "elastic": {"address": place}})
            self._soon(worker.id, 1.0 + 3 * dice("ready", worker.id), lambda: self._says(worker.id, line))
        if nature.endless:
            return
        lasts = 1.0 if setup else 4.0 + 90 * dice("lasts", worker.job, worker.attempt)
        if nature.tries and not setup:
            for step in (1, 3, 9):
                self._soon(worker.id, lasts * step / 10, lambda step=step: self._tells(worker, step))  # type: ignore[misc]  # a default argument
        self._soon(worker.id, lasts + dice("own", worker.id), lambda: self._ends(worker, setup))

    def _tells(self, worker: WorkerSpec, step: int) -> None:
        loss = dice("loss", worker.job) + 1 / step
        self._says(worker.id, json.dumps({"at": self.now, "figures": {"step": step, "loss": loss}}))

    def _says(self, worker: WorkerId, line: str) -> None:
        self._pool.workers.known[worker].report = line
        self._change(worker, said=line)

    def _ends(self, worker: WorkerSpec, setup: bool) -> None:
        how = "done"
        if (
            dice("fails", worker.job, worker.attempt) < self._pool.moods.failing
            and dice("who", worker.id) < 0.7
        ):
            how = one_of(("code", "signal", "lost", "memory", "out"), "how", worker.id)
        if how == "done" and not setup:
            self._pool.finished.add((worker.job, worker.attempt))
        self._end(worker.id, ENDS[how])

    def end(self, worker: WorkerId, how: str) -> None:
        """It ends now, in this way."""
        one = self._pool.workers.known[worker]
        if how == "done" and not worker.endswith(".setup.0.0"):
            self._pool.finished.add((one.spec.job, one.spec.attempt))
        self._end(worker, ENDS[how])

    def _stop(self, worker: WorkerId, grace: float) -> None:
        one = self._pool.workers.known.get(worker)
        if one is not None and worker in self._pool.living.get(one.spec.job, ()):
            self._pool.reach(one.spec.node, lambda: self._asked(worker, grace))

    def _asked(self, worker: WorkerId, grace: float) -> None:
        moods = self._pool.moods
        if worker not in self._pool.workers.known:
            return  # it ended while its node could not be reached
        if dice("deaf", worker) >= moods.deaf:
            wait = min(grace, one_of((0.0, 0.0, 0.5, 1.5), "obeys", worker))
            self._soon(worker, wait, lambda: self._end(worker, STOPPED))
        undead = dice("undead", worker) < moods.undead
        self._soon(worker, grace + (40.0 if undead else 0.0), lambda: self._end(worker, OVER))

    def _soon(self, worker: WorkerId, seconds: float, do: Callable[[], None]) -> None:
        """If it lives then."""
        job = self._pool.workers.known[worker].spec.job

        def if_alive() -> None:
            if worker in self._pool.living.get(job, ()):
                do()

        if seconds <= 0:
            if_alive()
        else:
            self._around.later(seconds, if_alive)

    # ------------------------------------------------------------------------------------- the news

    def _end(self, worker: WorkerId, exit_: Exit) -> None:
        job = self._pool.workers.known[worker].spec.job
        mine = self._pool.living.get(job, {})
        mine.pop(worker, None)
        if not mine:
            self._pool.living.pop(job, None)
        super()._end(worker, exit_)

    def _tell(self, status: WorkerStatus) -> None:
        pool, moods = self._pool, self._pool.moods
        pool.messages += 1
        for engine in list(pool.engines):
            if not engine._listeners:
                continue
            throw = dice("fate", status.id, status.state, status.said, engine.epoch)
            if throw < moods.lost:
                self._around.message("lost", status)
            elif throw < moods.lost + moods.late:
                delay = 30 * dice("delay", status.id, status.state, engine.epoch)
                self._around.later(delay, lambda engine=engine: engine.deliver(status, "late"))  # type: ignore[misc]  # a default argument
            else:
                engine.deliver(status, "told")
                if throw > 1 - moods.twice:
                    self._around.later(60 * throw, lambda engine=engine: engine.deliver(status, "repeated"))  # type: ignore[misc]  # a default argument

    def deliver(self, status: WorkerStatus, fate: str) -> None:
        """The message has come, if anybody still listens."""
        if self._listeners:
            self._around.message(fate, status)
            super()._tell(status)

    def tell_again(self) -> None:
        """Everything that is known of workers, once more."""
        for one in list(self._pool.workers.known.values()):
            for engine in list(self._pool.engines):
                engine.deliver(one.status, "repeated")
