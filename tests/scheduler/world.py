"""A tiny live system in virtual time around the pure core: what a control plane does, without one.

`settle` asks `decide`, carries the answer out as a control plane would – a start takes a second, a pause two,
a seat that was given back leaves a second later – and goes on until nothing more happens. After every step
the invariants are checked, and the same decision is asked of a snapshot built anew in another order: it must
be the same to the byte. Without outside events the world never comes back to an allocation that it has left.
"""

import random
from collections.abc import Iterable
from dataclasses import replace

from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import NEXT, Desired, Job, PauseCause, Phase
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.model.resources import GPU, Range, Request
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decision, Decisions, Pause, Requeue, Resize, Share, Start, with_share
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.preempt.epoch_windows import LONGEST_WAIT
from grus.scheduler.queues.policies import GRUS, Policy
from grus.scheduler.state.gpu_footprint import Footprint
from grus.scheduler.state.snapshot import Snapshot
from tests.scheduler import invariants, reference
from tests.scheduler.builders import a_job, a_pool, a_queue, lose, with_device
from tests.scheduler.dump import dump
from tests.scheduler.reference import Facts

START_SECONDS, PAUSE_SECONDS, LEAVE_SECONDS, STOP_SECONDS = 1.0, 2.0, 1.0, 2.0
WORKED_OUT = frozenset(
    {
        *("_versions", "over_cache"),
        *("stale", "_shared_out", "shares", "share", "exact", "wanted", "settled"),
        *("kept_weights", "ladders", "_unmeasured", "terms", "calm", "_reordered", "type_sets"),
    }
)
"""Fair shares and branches' demand, worked out anew when demand changes; what sizes are worth, and other
answers that are kept, worked out when they are first asked for."""


class World:
    """Nodes, queues and jobs, and the time. All names are plain strings."""

    def __init__(
        self, pool: str | Iterable[Node], *queues: Queue, seed: int = 0, policy: Policy = GRUS
    ) -> None:
        self.policy = policy
        self.outlooks: dict[JobId, Outlook] = {}
        self.tags: dict[JobId, Tag] = {}
        self.footprints: dict[JobId, Footprint] = {}
        self.nodes = a_pool(pool) if isinstance(pool, str) else tuple(pool)
        whole = sum(len(node.devices) for node in self.nodes)
        self.queues: tuple[Queue, ...] = queues or (a_queue("default", quota=whole),)
        self.jobs: dict[JobId, Job] = {}
        self.now = 1000.0
        self.wake_at: float | None = None
        self.history: list[tuple[float, Decision]] = []
        self.snapshot = Snapshot(self.nodes, self.queues, (), policy)
        self._timers: list[tuple[float, JobId, int, Phase | None]] = []
        self._chance = random.Random(seed)
        self._last_run: dict[JobId, Job] = {}
        self._quiet: list[str] = []
        self._actions_since_event = 0

    # ------------------------------------------------------------------------------- outside events

    def submit(self, *jobs: Job) -> "World":
        """Accept these, in this order, a millisecond apart."""
        for job in jobs:
            self.now = round(self.now + 0.001, 3)
            self._put(replace(job, submitted_at=self.now))
        return self._disturbed()

    def run(self, *jobs: Job) -> "World":
        """Submit and settle, one after the other."""
        for job in jobs:
            self.submit(job)
            self.settle()
        return self

    def expect(self, name: str, outlook: Outlook) -> "World":
        """Somebody has measured the job."""
        self.outlooks[JobId(name)] = outlook
        self.snapshot.expect(JobId(name), outlook)
        return self._disturbed()

    def note(self, name: str, tag: Tag | None) -> "World":
        """Somebody has recognised the job, or does not any more."""
        if tag is None:
            self.tags.pop(JobId(name), None)
        else:
            self.tags[JobId(name)] = tag
        self.snapshot.note(JobId(name), tag)
        return self._disturbed()

    def gauge(self, name: str, footprint: Footprint) -> "World":
        """Somebody has seen what the job takes of a GPU."""
        self.footprints[JobId(name)] = footprint
        self.snapshot.gauge(JobId(name), footprint)
        return self._disturbed()

    def limit(self, **users: int) -> "World":
        """An administrator sets the most GPUs that users may hold; those who are left out have no limit."""
        self.snapshot.set_user_limits({UserName(user): most * GPU for user, most in users.items()})
        return self._disturbed()

    def held_by(self, user: str) -> float:
        return sum(job.held for job in self.jobs.values() if job.user == user) / GPU

    def finish(self, name: str) -> "World":
        """The job ends well; its GPUs are free at once."""
        self._put(replace(self[name], phase=Phase.SUCCEEDED, seats=(), ended_at=self.now))
        return self._disturbed()

    def fail(self, name: str, back_off: float = 1.0) -> "World":
        """A worker dies: another attempt after the back-off, or the end."""
        job = self[name]
        failures = job.failures + 1
        if failures > job.spec.retries:
            self._put(replace(job, phase=Phase.FAILED, seats=(), failures=failures, ended_at=self.now))
        else:
            again = replace(job, phase=Phase.PENDING, seats=(), failures=failures)
            self._put(replace(again, not_before=self.now + back_off, backfill_until=None))
        return self._disturbed()

    def stop(self, name: str) -> "World":
        """Somebody stops it; its GPUs are free when its processes are proven dead."""
        job = self[name]
        if not job.seats:
            self._put(replace(job, phase=Phase.STOPPED, desired=Desired.STOP, ended_at=self.now))
        else:
            self._put(replace(job, desired=Desired.STOP))
            self._later(STOP_SECONDS, job, Phase.STOPPED)
        return self._disturbed()

    def pause(self, name: str) -> "World":
        """A person pauses it: only `resume` ends that."""
        job = self[name]
        asked = replace(job, desired=Desired.PAUSE, paused_by=PauseCause.PERSON)
        if not job.seats:
            self._put(replace(asked, phase=Phase.PAUSED))
        else:
            self._put(replace(asked, phase=Phase.PAUSING))
            self._later(PAUSE_SECONDS, asked, Phase.PAUSED)
        return self._disturbed()

    def resume(self, name: str) -> "World":
        job = self[name]
        phase = Phase.PENDING if job.phase is Phase.PAUSED else job.phase
        self._put(replace(job, desired=Desired.RUN, phase=phase, paused_by=None))
        return self._disturbed()

    def scale(self, name: str, low: int, high: int) -> "World":
        self._put(replace(self[name], size=Range(low, high)))
        return self._disturbed()

    def ask_instead(self, name: str, **changes: Request | int) -> "World":
        """The owner asks for something else."""
        job = self[name]
        self._put(replace(job, spec=replace(job.spec, **changes)))  # type: ignore[arg-type]  # fields of Spec
        return self._disturbed()

    def saved(self, name: str) -> "World":
        """The job reports a checkpoint written just now."""
        self._put(replace(self[name], saved_at=self.now))
        return self._disturbed()

    def set_nodes(self, nodes: Iterable[Node]) -> "World":
        self.nodes = tuple(nodes)
        self.snapshot.set_nodes(self.nodes)
        return self._disturbed()

    def lose(self, *devices: str) -> "World":
        return self.set_nodes(lose(self.nodes, *devices))

    def change_device(self, device: str, **changes: object) -> "World":
        return self.set_nodes(with_device(self.nodes, device, **changes))

    def cordon(self, node: str, cordoned: bool = True) -> "World":
        return self.set_nodes(replace(n, cordoned=cordoned) if n.id == node else n for n in self.nodes)

    def set_queue(self, queue: Queue) -> "World":
        others = tuple(q for q in self.queues if q.name != queue.name)
        self.queues = (*others, queue)
        self.snapshot.set_queues(self.queues)
        return self._disturbed()

    # ------------------------------------------------------------------------------------- the time

    def settle(self) -> "World":
        """Carry out what is decided until nothing more happens; the time moves only by what effects take."""
        for _ in range(40 + 12 * len(self.jobs)):
            decided = self.step()
            if decided.actions:
                continue
            if decided.put_off and self.wake_at is not None:
                self._move_to(min([self.wake_at, *(due for due, *_ in self._timers)]))
                continue
            if not self._timers:
                self._rest()
                return self
            self._move_to(min(due for due, *_ in self._timers))
        raise AssertionError(f"no rest: {self._told()}")

    def advance(self, seconds: float) -> "World":
        """Let time pass: effects end and the scheduler is asked whenever it wished to be."""
        self.settle()
        until = self.now + seconds
        for _ in range(200 + 12 * len(self.jobs)):
            if self.wake_at is None or self.wake_at > until:
                self._move_to(max(self.now, until))
                return self.settle()
            assert self.wake_at > self.now, f"asked at {self.now} to be woken at {self.wake_at}"
            self._move_to(self.wake_at)
            self.settle()
        raise AssertionError(f"woken for ever: {self._told()}")

    def step(self) -> Decisions:
        """One cycle: decide, check, carry out, check."""
        before = self.facts()
        self.snapshot.advance(self.now)
        found = dump(self.snapshot, WORKED_OUT)
        decisions = decide(self.snapshot, self.now)
        assert dump(self.snapshot, WORKED_OUT) == found, "decide changed its snapshot"
        assert repr(decide(self.anew(), self.now)) == repr(decisions), "another order, another decision"
        for action in decisions.actions:
            self._carry_out(action)
            self.history.append((self.now, action))
        self.wake_at = decisions.wake_at
        wrong = invariants.of_step(before, decisions, self.facts())
        assert not wrong, "\n".join([*wrong, f"now {self.now}", self._told()])
        self._bounded(len(decisions.actions))
        self._waits_not_too_long(decisions)
        return decisions

    def anew(self) -> Snapshot:
        """A snapshot of the same facts, built in another order; it has seen the ended jobs run, too."""
        jobs, queues, nodes = list(self.jobs.values()), list(self.queues), list(self.nodes)
        for things in (jobs, queues, nodes):
            self._chance.shuffle(things)
        snapshot = Snapshot(nodes, queues, (), self.policy)
        snapshot.set_user_limits(self.snapshot.user_limits)
        for job in jobs:
            if job.terminal and job.id in self._last_run:
                snapshot.put(self._last_run[job.id])
        for job in jobs:
            snapshot.put(job, self._blocked(job))
        for name, outlook in self.outlooks.items():
            snapshot.expect(name, outlook)
        for name, tag in self.tags.items():
            snapshot.note(name, tag)
        for name, footprint in self.footprints.items():
            snapshot.gauge(name, footprint)
        return snapshot

    def clone(self) -> "World":
        """Another world in the same state, to try something in."""
        other = World(self.nodes, *self.queues, policy=self.policy)
        other.outlooks, other.tags = dict(self.outlooks), dict(self.tags)
        other.footprints = dict(self.footprints)
        other.jobs, other.now, other.wake_at = dict(self.jobs), self.now, self.wake_at
        other._timers, other._last_run = list(self._timers), dict(self._last_run)
        other.snapshot = other.anew()
        return other

    # ------------------------------------------------------------------------------------ looking on

    def __getitem__(self, name: str) -> Job:
        return self.jobs[JobId(name)]

    def facts(self) -> Facts:
        alive = tuple(job for job in self.jobs.values() if not job.terminal)
        blocked = frozenset(job.id for job in alive if self._blocked(job))
        return Facts(self.nodes, self.queues, alive, blocked, self.now, self.snapshot.user_limits)

    def running(self, queue: str | None = None) -> set[str]:
        """Names of the jobs that run (of one queue)."""
        return {j.id for j in self.jobs.values() if reference.holds(j) and queue in (None, j.spec.queue)}

    def waiting(self, queue: str | None = None) -> set[str]:
        facts = self.facts()
        return {j.id for j in facts.jobs if reference.waits(facts, j) and queue in (None, j.spec.queue)}

    def paused(self) -> set[str]:
        return {job.id for job in self.jobs.values() if job.phase is Phase.PAUSED}

    def held(self, queue: str) -> float:
        """GPUs held in the branch."""
        return reference.held(self.facts(), QueueName(queue)) / GPU

    def size(self, name: str) -> float:
        """GPUs of the job's present generation."""
        return sum(seat.held for seat in self[name].staying) / GPU

    def nodes_of(self, name: str) -> set[str]:
        return {seat.node for seat in self[name].staying}

    def devices_of(self, name: str) -> set[str]:
        return {device for seat in self[name].staying for device in seat.devices}

    def starts(self, queue: str | None = None) -> list[str]:
        """Names of started jobs in order of their starts, resumes included."""
        of = [a.job for _, a in self.history if isinstance(a, Start)]
        return [name for name in of if queue in (None, self.jobs[name].spec.queue)]

    def pauses(self) -> list[str]:
        return [action.job for _, action in self.history if isinstance(action, Pause)]

    # ----------------------------------------------------------------------------------- the effects

    def _carry_out(self, action: Decision) -> None:
        job = self.jobs[action.job]
        if isinstance(action, Start):
            first = job.first_started_at if job.first_started_at is not None else self.now
            begun = replace(job, phase=Phase.STARTING, seats=action.seats, attempt=job.attempt + 1)
            begun = replace(begun, generation=1, started_at=self.now, first_started_at=first, paused_by=None)
            begun = replace(begun, made_room_for=None, guest_of=action.guest_of)
            self._put(replace(begun, backfill_until=action.backfill_until, reason=action.reason))
            self._later(START_SECONDS, begun, Phase.RUNNING)
        elif isinstance(action, Pause):
            told = replace(job, phase=Phase.PAUSING, paused_by=PauseCause.SCHEDULER, reason=action.reason)
            told = replace(told, made_room_for=action.preemptor)
            self._put(told)
            self._later(PAUSE_SECONDS, told, Phase.PAUSED)
        elif isinstance(action, Resize):
            resized = replace(job, seats=action.seats, generation=job.generation + 1, reason=action.reason)
            resized = replace(resized, made_room_for=action.preemptor, team_at=self.now)
            self._put(resized)
            if any(seat.leaving for seat in action.seats):
                self._later(LEAVE_SECONDS, resized, None)
        elif isinstance(action, Share):
            self._put(replace(with_share(job, action.share), reason=action.reason))
        elif isinstance(action, Requeue):
            self._put(replace(job, phase=Phase.PENDING, seats=(), backfill_until=None, reason=action.reason))

    def _later(self, seconds: float, job: Job, phase: Phase | None) -> None:
        self._timers.append((round(self.now + seconds, 3), job.id, job.attempt, phase))

    def _move_to(self, moment: float) -> None:
        """Go there, and let every effect end that is due by then, in the order of time."""
        while due := sorted((t for t in self._timers if t[0] <= moment), key=lambda t: t[:3]):
            self.now = max(self.now, due[0][0])
            self._timers.remove(due[0])
            self._end(self.jobs[due[0][1]], due[0][2], due[0][3])
            if due[0][0] < moment:
                self.step()
        self.now = max(self.now, moment)

    def _end(self, job: Job, attempt: int, phase: Phase | None) -> None:
        if job.terminal or job.attempt != attempt:
            return
        if phase is None:
            self._put(replace(job, seats=job.staying))
        elif phase is Phase.RUNNING and job.phase is Phase.STARTING:
            self._put(replace(job, phase=phase))
        elif phase is Phase.PAUSED and job.phase is Phase.PAUSING:
            done = Phase.STOPPED if job.desired is Desired.STOP else phase
            self._put(replace(job, phase=done, seats=(), saved_at=self.now, backfill_until=None))
        elif phase is Phase.STOPPED:
            self._put(replace(job, phase=phase, seats=(), ended_at=self.now))

    def _put(self, job: Job) -> None:
        old = self.jobs.get(job.id)
        assert old is None or job.phase is old.phase or job.phase in NEXT[old.phase], f"{old} → {job.phase}"
        self.jobs[job.id] = job = replace(job, version=job.version + 1)
        self.snapshot.put(job, self._blocked(job))
        if job.seats:
            self._last_run[job.id] = job
        for other in self.jobs.values():
            if job.terminal and job.id in other.spec.after and not other.terminal:
                self.snapshot.put(other, self._blocked(other))

    def _blocked(self, job: Job) -> str:
        open_ = [n for n in job.spec.after if n not in self.jobs or self.jobs[n].phase is not Phase.SUCCEEDED]
        return f"waits for {', '.join(open_)}" if open_ else ""

    # --------------------------------------------------------------------------------- no swapping

    def _disturbed(self) -> "World":
        self._quiet = []
        self._actions_since_event = 0
        return self

    def _bounded(self, actions: int) -> None:
        self._actions_since_event += actions
        most = 20 + 8 * len(self.jobs)
        assert self._actions_since_event <= most, f"too many decisions without an event: {self._told()}"

    def _waits_not_too_long(self, decisions: Decisions) -> None:
        """Nobody is let finish an epoch for one that has waited longer than the bound."""
        if decisions.put_off:
            since = max(self.jobs[JobId(name)].submitted_at for name in self.waiting())
            assert self.now <= since + LONGEST_WAIT, f"{decisions.put_off} put off: {self._told()}"
            assert self.wake_at is not None
            assert self.wake_at <= since + LONGEST_WAIT, f"{decisions.put_off} put off: {self._told()}"

    def _rest(self) -> None:
        """At rest: the allocation must be a new one since the last event, and nobody inside quota waits."""
        state = repr(sorted((job.id, job.held) for job in self.jobs.values() if job.seats))
        assert state not in self._quiet[:-1], f"back to where it was without an event: {self._told()}"
        if not self._quiet or self._quiet[-1] != state:
            self._quiet.append(state)
        wrong = invariants.at_rest(reference.without_guests(self.facts()))
        assert not wrong, "\n".join([*wrong, self._told()])

    def _told(self) -> str:
        last = [f"  {at:.3f} {action}" for at, action in self.history[-30:]]
        jobs = [f"  {job.id}: {job.phase} {job.held / GPU}" for job in self.jobs.values() if not job.terminal]
        return "\n".join(["history:", *last, "jobs:", *jobs])


def two_queues(pool: str = "1x4", a: float = 2, b: float = 2) -> World:
    """The small world of most fixtures: queues A and B."""
    return World(pool, a_queue("A", quota=a), a_queue("B", quota=b))


def jobs_of(queue: str, number: int, *, gpus: int | float | str = 1, first: int = 1) -> list[Job]:
    """a1, a2, … of queue A."""
    return [a_job(f"{queue.lower()}{first + i}", queue=queue, gpus=gpus) for i in range(number)]
