"""Replay of a recorded live run: are the simulator's decisions the live ones?

Two aspects are compared. Given the live scheduler's inputs, in the same order, `decide` must answer the same:
the same jobs, the same placements, in the same order, for the same reasons, with the same next wake-up time.
And the effect of the simulator's `Effects` on a job, by a decision or when it has left its GPUs, must equal
the control plane's, in everything that a later decision reads. Both receive the remaining inputs (arrivals,
user actions, ends of work, states of nodes), so state and decisions are equal step by step. The first
difference ends the replay and is reported.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import msgspec

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId
from grus.model.jobs import Desired, Job, Phase, Seat
from grus.scheduler import cycle
from grus.scheduler.decisions import Decision, Share
from grus.scheduler.queues.policies import Policy, policy_named
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.events.decision_executor import Costs, Effects
from grus.simulator.events.event_queue import ScheduledEvent, SimulationEventKind
from grus.simulator.events.job_progress import SimulatedRun
from grus.simulator.recorded.decision_recorder import (
    FORM,
    Action,
    Decide,
    Put,
    RecordedDecision,
    RecordingLine,
    flat,
    lines,
)
from grus.simulator.workload.job_work import TraceJob

LONG = 1e12
"""Seconds: no job ends while one decision is carried out."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which the replay was not the live run."""

    line: int
    at: float
    what: str
    live: str
    simulated: str


@dataclass(slots=True)
class Replay:
    """The extent of the comparison, and the first difference if there was one."""

    lives: int = 0
    """Control planes that took over."""
    decisions: int = 0
    """Number of scheduler calls."""
    actions: int = 0
    """Number of actions that it returned."""
    carried: int = 0
    """Actions whose effect on the job was compared too; the others were overtaken by something else."""
    left: int = 0
    """Number of comparisons of a job that had left its GPUs, all or some."""
    jobs: set[JobId] = field(default_factory=set)
    full: bool = False
    """The record was cut because it was long enough."""
    difference: Difference | None = None

    def sentence(self) -> str:
        if self.difference is not None:
            first = self.difference
            return f"Decision {self.decisions} (line {first.line}, at {first.at:.3f}) differs: {first.what}"
        cut = "; the record is cut there, since it was long enough" if self.full else ""
        return f"{self.decisions} decisions, all equal{cut}"

    def as_json(self) -> dict[str, object]:
        first = self.difference
        return {
            "decisions": self.decisions,
            "actions": self.actions,
            "carried_out": self.carried,
            "left": self.left,
            "jobs": len(self.jobs),
            "lives": self.lives,
            "full": self.full,
            "equal": first is None,
            "difference": None
            if first is None
            else {
                "line": first.line,
                "at": first.at,
                "what": first.what,
                "live": first.live,
                "simulated": first.simulated,
            },
        }


def replay(text: Iterable[bytes], decide: Decide = cycle.decide) -> Replay:
    """Play a record again. Raises BadInput if it is none."""
    player = _Player(decide)
    found = iter(lines(text))
    number = 0
    while True:
        try:
            number, line = next(found)
        except StopIteration:
            break
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise BadInput(
                [Mistake("record", f"is not a record of decisions: {error}", line=number + 1)]
            ) from None
        player.take(number, line)
        if player.found.difference is not None:
            break
    if not player.found.lives:
        raise BadInput([Mistake("record", "is empty; it must begin with the line `begin`", line=1)])
    return player.found


class _Player:
    """Follows a record line by line."""

    def __init__(self, decide: Decide) -> None:
        self.found = Replay()
        self._decide = decide
        self._snapshot = Snapshot()
        self._open: dict[JobId, tuple[Decision, Job]] = {}
        """The simulator's versions of the jobs of the last decision, until the record shows them too."""
        self._at = 0.0

    def take(self, number: int, line: RecordingLine) -> None:
        if line.begin is not None:
            if line.begin.form != FORM:
                rule = f"is of form {line.begin.form}; this version reads form {FORM}"
                raise BadInput([Mistake("record", rule, line=number)])
            self.found.lives += 1
            self._snapshot, self._open = Snapshot(policy=self._policy(number, line.begin.policy)), {}
        elif not self.found.lives:
            raise BadInput([Mistake("record", "must begin with the line `begin`", line=number)])
        elif line.pool is not None:
            self._snapshot.nodes = line.pool.nodes
            self._snapshot.user_limits = dict(line.pool.user_limits)  # rebuilt below, once for all
            self._snapshot.set_queues(line.pool.queues)
        elif (line.put or line.decide) and not self._snapshot.queue_list:
            raise BadInput([Mistake("record", "asks before there is a pool", line=number)])
        elif line.put is not None:
            self._put(number, line.put)
        elif line.expect is not None:
            self._snapshot.expect(line.expect.job, line.expect.outlook)
        elif line.note is not None:
            self._snapshot.note(line.note.job, line.note.tag)
        elif line.gauge is not None:
            self._snapshot.gauge(line.gauge.job, line.gauge.footprint)
        elif line.decide is not None:
            self._ask(number, line.decide)
        elif line.full is not None:
            self.found.full = True
        else:
            rule = "must be one of begin, pool, put, expect, note, gauge, decide, full"
            raise BadInput([Mistake("record", rule, line=number)])

    @staticmethod
    def _policy(number: int, name: str) -> Policy:
        try:
            return policy_named(name)
        except BadInput as error:
            raise BadInput([replace(mistake, line=number) for mistake in error.mistakes]) from None

    def _put(self, number: int, put: Put) -> None:
        action, expected = self._open.pop(put.job.id, (None, None))
        known = self._snapshot.job(put.job.id)
        if known is not None and _nobody_else(known, put.job):
            if action is not None and _is_ruling(known, put.job, action):
                self.found.carried += 1
            elif (due := _given_back(known, put.job)) is not None:
                self.found.left += 1
                expected = self._alone(known, lambda effects, run: effects.happen(due(run), self._at))
            else:
                expected = None
            if expected is not None and not self._same(number, put.job, expected):
                return
        self.found.jobs.add(put.job.id)
        self._snapshot.put(put.job, put.blocked)

    def _same(self, number: int, job: Job, expected: Job) -> bool:
        live, simulated = essence(job), essence(expected)
        for name, value in live.items():
            if value != simulated[name]:
                what = f"the simulator leaves {job.id} with another {name}"
                self._differ(number, what, str(value), str(simulated[name]))
                return False
        return True

    def _ask(self, number: int, asked: RecordedDecision) -> None:
        self._at = asked.now
        self.found.decisions += 1
        decisions = self._decide(self._snapshot, asked.now)
        said = tuple(map(flat, decisions.actions))
        self.found.actions += len(asked.actions)
        if said != asked.actions:
            self._differ(number, *_first_difference(asked.actions, said))
        elif decisions.wake_at != asked.wake_at:
            self._differ(number, "when to ask again", str(asked.wake_at), str(decisions.wake_at))
        else:
            self._open = {one.job: (one, self._carried(one, asked.now)) for one in decisions.actions}

    def _carried(self, action: Decision, now: float) -> Job:
        """Return the simulator's version of the job after the decision."""
        job = self._snapshot.entries[action.job].job
        return self._alone(job, lambda effects, _: effects.carry_out(action, now))

    def _alone(self, job: Job, do: Callable[[Effects, SimulatedRun], object]) -> Job:
        """Return the simulator's version of a job after `do` is applied to it."""
        role = job.spec.request.elastic
        size = role.replicas if role is not None else None
        work = TraceJob(
            id=job.id, submit=job.submitted_at, duration=LONG, size=size, grace=job.spec.checkpoint.grace
        )
        # On a snapshot of its own, since the live one did not change before all was on record.
        effects = Effects(Snapshot((), self._snapshot.queue_list), (), Costs(), spans=False)
        run = effects.runs[job.id] = SimulatedRun(work, job)
        do(effects, run)
        return run.job

    def _differ(self, number: int, what: str, live: str, simulated: str) -> None:
        self.found.difference = Difference(number, self._at, what, live, simulated)


def _nobody_else(before: Job, after: Job) -> bool:
    """Return whether this is one change, and none by its user."""
    return (
        after.version == before.version + 1 and after.desired is before.desired and after.size == before.size
    )


def _is_ruling(before: Job, after: Job, action: Decision) -> bool:
    """Return whether the change is the applied decision; a decision that no longer applied is not carried
    out.
    """
    moved = (after.phase, after.attempt, after.generation) != (
        before.phase,
        before.attempt,
        before.generation,
    )
    moved = moved or (isinstance(action, Share) and after.held != before.held)
    return after.reason == action.reason and (moved or not after.staying) and not after.terminal


def _given_back(before: Job, after: Job) -> Callable[[SimulatedRun], ScheduledEvent] | None:
    """Return the simulator's event for a job that has left GPUs; None if it did not, ended, or failed."""
    gone = tuple(seat for seat in before.seats if seat not in after.seats)
    if not gone or after.terminal or after.desired is not Desired.RUN or after.failures != before.failures:
        return None
    if before.phase is Phase.PAUSING:
        return lambda run: ScheduledEvent(0.0, SimulationEventKind.PAUSED, 0, run, run.epoch)
    if not all(seat.leaving for seat in gone):
        return None  # Not requested: its attempt was lost.
    return lambda run: ScheduledEvent(0.0, SimulationEventKind.LEFT, 0, run, (before.attempt, gone))


def essence(job: Job) -> dict[str, object]:
    """Return the parts of the job that later decisions can see. A job that is up already makes no
    difference.
    """
    up = job.phase in (Phase.STARTING, Phase.RUNNING)
    return {
        "phase": "up" if up else str(job.phase),
        "seats": job.seats,
        "attempt": job.attempt,
        "generation": job.generation,
        "start": (job.started_at, job.first_started_at),
        "cause of pause": job.paused_by,
        "job it made room for": job.made_room_for,
        "backfill": job.backfill_until,
        "host": job.guest_of,
        "back-off": job.not_before > 0.0,
    }


def _first_difference(live: tuple[Action, ...], simulated: tuple[Action, ...]) -> tuple[str, str, str]:
    for number, (one, other) in enumerate(zip(live, simulated, strict=False), 1):
        if one != other:
            return f"action {number} of {len(live)}", _words(one), _words(other)
    longer, shorter = max(live, simulated, key=len), min(len(live), len(simulated))
    more = _words(longer[shorter])
    what = f"{len(live)} actions were taken, {len(simulated)} are decided"
    return (what, more, "nothing") if len(live) > len(simulated) else (what, "nothing", more)


def _words(action: Action) -> str:
    seats = ", ".join(map(_seat_words, action.seats))
    return f"{action.does} {action.job}" + (f" [{seats}]" if seats else "") + f": {action.reason}"


def _seat_words(seat: Seat) -> str:
    where = " ".join(seat.devices) or seat.node
    return f"{seat.role}.{seat.index} on {where}" + (" (leaving)" if seat.leaving else "")
