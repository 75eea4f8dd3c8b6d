"""What has to be done outside so that the workers are as the record says. `wanted` is pure; `Hand` does it.

Every effect follows from recorded state alone and can be repeated, so that a control plane which died between
the record and the effect is simply followed by one that does it again. Nothing is done that is not recorded.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from grus.controlplane import teams
from grus.controlplane.ends import Statuses, over
from grus.controlplane.launching import (
    Member,
    Surroundings,
    members,
    setup_id,
    setup_member,
    worker_spec,
)
from grus.controlplane.lifecycle import ending
from grus.model.identifiers import WorkerId
from grus.model.jobs import HOLDING, Desired, ExitCause, Job, Phase
from grus.model.ports import Engine, WorkerSpec, WorkerState, WorkerStatus


@dataclass(frozen=True, slots=True)
class Team:
    """Whom a worker computes with, as it is told."""

    number: int
    members: tuple[str, ...]
    """Addresses in the order of ranks."""
    me: int | None
    """Its own rank; None if it is no member."""
    broken: int


@dataclass(frozen=True, slots=True)
class Control:
    """What a worker's SDK is told."""

    generation: int
    world: int
    pause: bool
    leave: bool
    team: Team | None = None

    def text(self, deadline: float | None) -> str:
        """As JSON; `deadline` is when the worker will be killed, in Unix time."""
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
class Tell:
    worker: WorkerId
    control: Control
    grace: float | None
    """Seconds that it has left; None if it goes on."""


@dataclass(frozen=True, slots=True)
class End:
    worker: WorkerId
    grace: float


@dataclass(frozen=True, slots=True)
class Forget:
    worker: WorkerId


Effect = Launch | Tell | End | Forget


def wanted(job: Job | None, statuses: Statuses, around: Surroundings, failure_grace: float) -> list[Effect]:
    """Everything that the record asks of the engine for one job, repeated or not; None for no such job."""
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
    # Those who run are told first: they may stand still until they know with whom they go on.
    for member in sorted(team, key=lambda member: member.id not in own):
        effects += _for_member(job, member, own, around)
    return effects


def _for_member(job: Job, member: Member, own: Statuses, around: Surroundings) -> list[Effect]:
    status = own.get(member.id)
    if member.leaving:
        if status is None or status.state is WorkerState.ENDED:
            return []
        grace = job.spec.checkpoint.grace
        return [End(member.id, grace), Tell(member.id, _control(job, member.id, leave=True), grace)]
    if member.seats[0].cut:
        return [End(member.id, 0.0)] if status is not None and not over(status) else []
    if status is None:
        return [Launch(worker_spec(job, member, around)), *_news(job, member)]
    return _news(job, member) if status.state is not WorkerState.ENDED else []


def _control(job: Job, worker: WorkerId, *, pause: bool = False, leave: bool = False) -> Control:
    world = sum(1 for member in members(job) if not member.leaving)
    return Control(job.generation, world, pause, leave, _team(job, worker))


def _team(job: Job, worker: WorkerId) -> Team | None:
    if not job.team:
        return None
    found = teams.team(job)
    me = next((rank for rank, member in enumerate(found) if member.id == worker), None)
    return Team(job.team, tuple(member.seats[0].address for member in found), me, job.broken)


def _news(job: Job, member: Member) -> list[Effect]:
    """A worker of the first generation knows everything from its environment, but for its team."""
    return [Tell(member.id, _control(job, member.id), None)] if job.generation > 1 or job.team else []


def _end_all(job: Job, own: Statuses, grace: float) -> list[Effect]:
    """Ended first, told second: one that obeyed the text before any signal would look done, not paused."""
    alive = [status.id for status in own.values() if status.state is not WorkerState.ENDED]
    pause = job.phase is Phase.PAUSING
    effects: list[Effect] = []
    for worker in alive:
        effects += [
            End(worker, grace),
            Tell(worker, _control(job, worker, pause=pause, leave=not pause), grace),
        ]
    return effects


def _grace(job: Job, failure_grace: float) -> float:
    """What the workers of an attempt that ends get: time to save, unless there is nothing left to save."""
    own = job.spec.checkpoint.grace
    if job.phase is Phase.PAUSING or job.desired is Desired.STOP or job.exit is None:
        return own
    may_save = job.exit.cause in (ExitCause.TIME, ExitCause.LOST)
    return own if may_save else min(own, failure_grace)


def _clear(statuses: Iterable[WorkerStatus]) -> list[Effect]:
    """Workers that no record asks for: the living are ended at once, the dead forgotten."""
    return [
        Forget(status.id) if status.state is WorkerState.ENDED else End(status.id, 0.0) for status in statuses
    ]


def _clear_gone(own: Statuses, known: set[WorkerId], job: Job) -> list[Effect]:
    """Workers of this attempt whose seats are released; the setup is kept as proof that it was run."""
    setup = setup_id(job)
    return _clear(status for worker, status in own.items() if worker not in known and worker != setup)


class Hand:
    """Carries effects out, each once in the life of a control plane; a repetition by the next is harmless."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[WorkerId, tuple[Control, float | None]] = {}
        self._ended: dict[WorkerId, float] = {}

    def do(self, effect: Effect, now: float) -> None:
        """Raises Fenced if another control plane has taken over; anything else raised is a fault."""
        match effect:
            case Launch(worker):
                self._engine.start(worker)
            case Tell(worker, control, grace):
                if self._told.get(worker) != (control, grace):
                    self._engine.publish(worker, control.text(None if grace is None else now + grace))
                    self._told[worker] = (control, grace)
            case End(worker, grace):
                if grace < self._ended.get(worker, float("inf")):
                    self._engine.stop(worker, grace)
                    self._ended[worker] = grace
            case Forget(worker):
                self._engine.forget(worker)
                self._told.pop(worker, None)
                self._ended.pop(worker, None)
