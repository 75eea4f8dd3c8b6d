"""Engine calls needed to make the workers match the recorded job. `wanted` is pure; `EngineCallExecutor`
executes it.

Every engine call follows from recorded state alone and can be repeated: if a control plane dies between the
record and the call, the next one makes the call again. Nothing is done that is not recorded.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from grus.controlplane.jobs import worker_group_membership
from grus.controlplane.jobs.lifecycle import ending
from grus.controlplane.workers.exit_status import Statuses, over
from grus.controlplane.workers.worker_launch_spec import (
    Member,
    Surroundings,
    members,
    setup_id,
    setup_member,
    worker_spec,
)
from grus.model.identifiers import WorkerId
from grus.model.interfaces import Engine, WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import HOLDING, Desired, ExitCause, Job, Phase


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Worker group of a worker, as sent to it: the workers that it computes with."""

    number: int
    members: tuple[str, ...]
    """Addresses in the order of ranks."""
    me: int | None
    """Its own rank; None if it is no member."""
    broken: int


@dataclass(frozen=True, slots=True)
class Control:
    """Control message to a worker's SDK."""

    generation: int
    world: int
    pause: bool
    leave: bool
    team: WorkerGroup | None = None

    def text(self, deadline: float | None) -> str:
        """Return the message as JSON; `deadline` is the time at which the worker will be killed, in Unix
        time.
        """
        return json.dumps(
            {
                "generation": self.generation,
                "world": self.world,
                "pause": self.pause,
                "leave": self.leave,
                "deadline": deadline,
                "team": None if self.team is None else asdict(self.team),
            }
        )


@dataclass(frozen=True, slots=True)
class Launch:
    worker: WorkerSpec


@dataclass(frozen=True, slots=True)
class SendControl:
    worker: WorkerId
    control: Control
    grace: float | None
    """Seconds until it is killed; None if it continues."""


@dataclass(frozen=True, slots=True)
class StopWorker:
    worker: WorkerId
    grace: float


@dataclass(frozen=True, slots=True)
class Forget:
    worker: WorkerId


Effect = Launch | SendControl | StopWorker | Forget


def wanted(job: Job | None, statuses: Statuses, around: Surroundings, failure_grace: float) -> list[Effect]:
    """Return every engine call that the record requires for one job, repeated or not; `job` is None if it
    does not exist.
    """
    if job is None or job.phase not in HOLDING:
        return _clear(statuses.values())
    own = {worker: status for worker, status in statuses.items() if status.attempt == job.attempt}
    effects = _clear(status for worker, status in statuses.items() if worker not in own)
    team = members(job)
    known = {member.id for member in team}
    if ending(job):
        return effects + _end_all(job, own, _grace(job, failure_grace))
    effects += _clear_gone(own, known, job)
    if (
        (setup := setup_member(job)) is not None
        and job.phase is Phase.STARTING
        and not over(own.get(setup.id))
    ):
        return effects if setup.id in own else [*effects, Launch(worker_spec(job, setup, around))]
    # Notify running workers first: they may stand still until they know their worker group.
    for member in sorted(team, key=lambda member: member.id not in own):
        effects += _for_member(job, member, own, around)
    return effects


def _for_member(job: Job, member: Member, own: Statuses, around: Surroundings) -> list[Effect]:
    status = own.get(member.id)
    if member.leaving:
        if status is None or status.state is WorkerState.ENDED:
            return []
        grace = job.spec.checkpoint.grace
        return [
            StopWorker(member.id, grace),
            SendControl(member.id, _control(job, member.id, leave=True), grace),
        ]
    if member.seats[0].cut:
        return [StopWorker(member.id, 0.0)] if status is not None and not over(status) else []
    if status is None:
        return [Launch(worker_spec(job, member, around)), *_news(job, member)]
    return _news(job, member) if status.state is not WorkerState.ENDED else []


def _control(job: Job, worker: WorkerId, *, pause: bool = False, leave: bool = False) -> Control:
    world = sum(1 for member in members(job) if not member.leaving)
    return Control(job.generation, world, pause, leave, _team(job, worker))


def _team(job: Job, worker: WorkerId) -> WorkerGroup | None:
    if not job.team:
        return None
    found = worker_group_membership.team(job)
    me = next((rank for rank, member in enumerate(found) if member.id == worker), None)
    return WorkerGroup(job.team, tuple(member.seats[0].address for member in found), me, job.broken)


def _news(job: Job, member: Member) -> list[Effect]:
    """Return the message for a worker: the first rendezvous round is known from its environment, except for
    its worker group.
    """
    return [SendControl(member.id, _control(job, member.id), None)] if job.generation > 1 or job.team else []


def _end_all(job: Job, own: Statuses, grace: float) -> list[Effect]:
    """End each worker before sending the text: a worker that obeyed the text before any signal would look
    done, not paused.
    """
    alive = [status.id for status in own.values() if status.state is not WorkerState.ENDED]
    pause = job.phase is Phase.PAUSING
    effects: list[Effect] = []
    for worker in alive:
        effects += [
            StopWorker(worker, grace),
            SendControl(worker, _control(job, worker, pause=pause, leave=not pause), grace),
        ]
    return effects


def _grace(job: Job, failure_grace: float) -> float:
    """Return the grace period of the workers of an attempt that ends: time to save, unless nothing is left to
    save.
    """
    own = job.spec.checkpoint.grace
    if job.phase is Phase.PAUSING or job.desired is Desired.STOP or job.exit is None:
        return own
    may_save = job.exit.cause in (ExitCause.TIME, ExitCause.LOST)
    return own if may_save else min(own, failure_grace)


def _clear(statuses: Iterable[WorkerStatus]) -> list[Effect]:
    """Remove workers that no record names: end the living at once, forget the dead."""
    return [
        Forget(status.id) if status.state is WorkerState.ENDED else StopWorker(status.id, 0.0)
        for status in statuses
    ]


def _clear_gone(own: Statuses, known: set[WorkerId], job: Job) -> list[Effect]:
    """Clear workers of this attempt whose GPUs are released; keep the setup, as evidence that it ran."""
    setup = setup_id(job)
    return _clear(status for worker, status in own.items() if worker not in known and worker != setup)


class EngineCallExecutor:
    """Executor: carries out engine calls, each once in the life of a control plane; a repetition by the next
    is harmless.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[WorkerId, tuple[Control, float | None]] = {}
        self._ended: dict[WorkerId, float] = {}

    def do(self, effect: Effect, now: float) -> None:
        """Execute an engine call. Raises Fenced if another control plane has taken over; any other exception
        is a fault.
        """
        match effect:
            case Launch(worker):
                self._engine.start(worker)
            case SendControl(worker, control, grace):
                if self._told.get(worker) != (control, grace):
                    self._engine.publish(worker, control.text(None if grace is None else now + grace))
                    self._told[worker] = (control, grace)
            case StopWorker(worker, grace):
                if grace < self._ended.get(worker, float("inf")):
                    self._engine.stop(worker, grace)
                    self._ended[worker] = grace
            case Forget(worker):
                self._engine.forget(worker)
                self._told.pop(worker, None)
                self._ended.pop(worker, None)
