"""The world in which a control plane lives: one clock, one disk, one pool, and a line of control planes.

Time is virtual and only `advance` moves it. What happens is done in the order of its time, and after each
thing the control plane has its turn, as its thread would. A turn may be cut short (the control plane dies) or
held up: then the world goes on inside it, other control planes included, and it continues where it stood.

Everything is counted, checked by `Promises` the moment it happens, and added to a digest; two runs of the
same deeds have the same digest.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.settings import Settings
from grus.model.activity_labels import Tag
from grus.model.errors import Fenced, GrusError, StoreFailed
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import QUEUES, USERS, Event, WorkerSpec, WorkerStatus
from grus.model.jobs import HOLDING, ExitCause, Job, JobType, Phase
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.scheduler import cycle
from grus.scheduler.decisions import Decisions
from grus.scheduler.state.snapshot import Snapshot
from tests.controlplane.plane import ADMIN, ANN, Server
from tests.scheduler import invariants
from tests.scheduler.reference import Facts
from tests.trust.machines import Machines, Nature, Pool, Trouble
from tests.trust.promises import Actor, Promises
from tests.trust.simulated_disk import SimulatedDisk
from tests.trust.violations import Broken, Killed

FIRST = 1_000_000.0
"""What the clock on the wall shows at the beginning."""
MOST_PASSES = 500
"""In one turn: more would be a control plane that never comes to rest."""
OFTEN = 40
"""Turns between two recounts of everything."""
JUDGED = 8
"""Of so many decisions one is judged by the naive reference."""
SWEEPS = 2.0
"""Seconds between two looks at all sweeps."""


RULES: tuple[Callable[[Facts, Decisions], Iterable[str]], ...] = (
    lambda _, decisions: invariants.each_job_once(decisions),
    invariants.targets_are_legal,
)


class ControlPlane:
    """One server over the shared disk and pool, and how it fares."""

    def __init__(self, world: "World") -> None:
        self.engine = Machines(world.pool, world)
        self.server = Server(
            world.disk,
            self.engine,
            settings=world.settings,
            clock=world.wall,
            steady=lambda: world.now,
            entropy=world.entropy,
            decide=world.decide,
            tags=lambda _: world.tags,
            profiles=Profiles(world.disk),
        )
        self.loop, self.services, self.sweeper = self.server.loop, self.server.services, self.server.sweeper
        self.busy = False
        """It is in the middle of something, or stopped there."""
        self.fenced = False
        self.wakes_at = world.now
        self.sweeps_at = world.now
        # It rests in virtual time, and a change of queues is read by its own next pass, as if by a thread.
        mailbox = self.loop._mailbox
        mailbox.rest = lambda seconds: self._rest(world.now + seconds)  # type: ignore[method-assign]
        self.loop.refresh = lambda: _ignore(mailbox.refresh())  # type: ignore[method-assign]
        self.resting_until = 0.0

    def _rest(self, until: float) -> None:
        self.resting_until = until

    @property
    def epoch(self) -> int:
        return self.loop.pulse.epoch

    def die(self) -> None:
        """It is gone; whatever it listened to, it hears no more."""
        self.fenced = True
        self.engine.die()
        self.server.close()


class World:
    """One history's."""

    def __init__(self, nodes: tuple[Node, ...], queues: tuple[Queue, ...], keep: bool = False) -> None:
        self.now = 0.0
        self.skew = 0.0
        """Of the clock on the wall."""
        self.settings = Settings(state=Path("/nonexistent"), environment=(("PATH", "/bin"),))
        self.tags: dict[JobId, Tag] = {}
        self.counts: Counter[str] = Counter()
        self.lines: list[str] | None = [] if keep else None
        self._digest = hashlib.blake2b(digest_size=16)
        self._happenings: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._ids = 0
        self._turns = 0
        self._decisions = 0
        self.began: dict[tuple[JobId, int], tuple[float, int]] = {}
        """Attempts: when each began in true time, and under whom."""
        self.waited: set[tuple[JobId, float]] = set()
        """Jobs, and until when they had to wait: that time has come."""
        self.pool = Pool(nodes)
        self.disk = SimulatedDisk(self)
        self.promises = Promises(self.disk.every_job, self.pool)
        self.natures: dict[JobId, Nature] = {}
        self.plane: ControlPlane | None = None
        self.actors: list[ControlPlane] = []
        self.fuse: int | None = None
        """Places that the control plane passes before it dies."""
        self.kept = 0.0
        """Part of what was handed over that lasts then."""
        self.down_for = 0.0
        self.halt: int | None = None
        """Places that it passes before it is stopped, and another takes over."""
        self.halted_for = 0.0
        self.slow = 0.0
        """Seconds that a commit takes."""
        self.depth = 0
        for user in (ADMIN, ANN):
            self.disk.put(USERS, user)
        for queue in queues:
            self.disk.put(QUEUES, queue)
        self.disk.commit()
        self.begin()

    # ---------------------------------------------------------------------------------------- time

    def wall(self) -> float:
        return FIRST + self.now + self.skew

    def entropy(self) -> int:
        self._ids += 1
        return self._ids

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._happenings, (self.now + seconds, self._order, do))

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due meanwhile."""
        until = self.now + seconds
        self.serve()
        while (at := self._next()) <= until:
            self.now = max(self.now, at)
            while self._happenings and self._happenings[0][0] <= self.now:
                heappop(self._happenings)[2]()
            self.serve()
        self.now = max(self.now, until)

    def _next(self) -> float:
        times = [self._happenings[0][0]] if self._happenings else []
        if (plane := self.plane) is not None and not plane.busy and not plane.fenced:
            times += [max(plane.wakes_at, plane.resting_until)]
            if plane.sweeper._live:
                times.append(plane.sweeps_at)
        return min(times, default=float("inf"))

    # ------------------------------------------------------------------------------ control planes

    def begin(self) -> None:
        """A new control plane takes over; it may die of it."""
        plane = self.plane = ControlPlane(self)
        with self.acting(plane):
            plane.server.open()
        self.note("begin", f"epoch {plane.epoch} begins")
        self.promises.recount()

    @contextmanager
    def acting(self, plane: ControlPlane) -> Iterator[None]:
        """What is done inside is done by this control plane, which may die of it."""
        self.actors.append(plane)
        busy, plane.busy = plane.busy, True
        try:
            yield
        except Killed:
            self._dies(plane)
        finally:
            self.actors.pop()
            plane.busy = busy

    def _dies(self, plane: ControlPlane) -> None:
        self.note("crash", f"epoch {plane.epoch} dies; {self.kept:.0%} of what it handed over lasts")
        plane.die()
        self.disk.power_off(plane, self.kept)
        if self.plane is plane:
            self.plane = None
            self.later(self.down_for, self._revive)

    def _revive(self) -> None:
        if self.plane is None:
            self.begin()

    def serve(self) -> None:
        """The control plane's threads have their turn, if they have something to do."""
        plane = self.plane
        if plane is None or plane.busy or plane.fenced:
            return
        if self.now >= plane.resting_until and (plane.loop._mailbox.waiting or self.now >= plane.wakes_at):
            self.turn(plane)
        heard = plane.sweeper._thread._woken.is_set()
        if self.plane is plane and plane.sweeper._live and (heard or self.now >= plane.sweeps_at):
            self.sweep(plane)
            if self.plane is plane and plane.loop._mailbox.waiting and self.now >= plane.resting_until:
                self.turn(plane)
        if self.disk.waits and not self.actors:
            self.disk.commit()

    def turn(self, plane: ControlPlane) -> None:
        """The loop's thread: passes until there is nothing more to do."""
        with self.acting(plane):
            for _ in range(MOST_PASSES):
                if not self._passes(plane):
                    break
                if not plane.loop._mailbox.waiting and plane.loop._until_next() > 0:
                    break
            else:
                raise Broken("REST", f"the loop has not come to rest in {MOST_PASSES} passes")
            plane.wakes_at = self.now + plane.loop._until_next()
        self._turns += 1
        if self.plane is plane and not plane.fenced:
            self._look(plane)

    def _passes(self, plane: ControlPlane) -> bool:
        """One pass, as `ControlLoop._run` does it; whether it may go on."""
        self.counts["passes"] += 1
        try:
            plane.loop.step(self.wall())
            plane.loop.pulse.troubles = 0
        except Fenced as error:
            self._is_over(plane, error)
            return False
        except (StoreFailed, Trouble) as error:
            plane.loop._stumble(error)
            return False
        except Exception as error:
            raise Broken("PASS", f"a pass failed by itself: {type(error).__name__}: {error}") from error
        return True

    def sweep(self, plane: ControlPlane) -> None:
        """The thread that drives sweeps."""
        everything = self.now >= plane.sweeps_at
        plane.sweeper._thread._woken.clear()
        if everything:
            plane.sweeps_at = self.now + SWEEPS
        with self.acting(plane):
            try:
                plane.sweeper.step(self.wall(), everything=everything)
            except Fenced as error:
                self._is_over(plane, error)

    def _is_over(self, plane: ControlPlane, error: Fenced) -> None:
        if self.plane is plane:
            raise Broken("S6", f"epoch {plane.epoch} is the newest and was refused: {error}")
        self.note("fenced", f"epoch {plane.epoch} hears that it is over")
        plane.die()

    def _look(self, plane: ControlPlane) -> None:
        if plane.loop.drift:
            raise Broken("S10", f"usage believed and on record differed {plane.loop.drift} times")
        if self._turns % OFTEN == 0:
            self.recount()

    def recount(self) -> None:
        """Everything once more, and what the control plane believes, if it knows all."""
        self.promises.recount()
        plane = self.plane
        if plane is not None and not plane.busy and not plane.loop._mailbox.waiting and not plane.loop._retry:
            self.promises.believed(plane.loop)

    def decide(self, snapshot: Snapshot, now: float) -> Decisions:
        """The real scheduler; from time to time its decision is held against the naive reference."""
        self._decisions += 1
        self.waited.update((entry.id, entry.job.not_before) for entry in snapshot.delayed(now))
        if self._decisions % JUDGED:
            return cycle.decide(snapshot, now)
        jobs = tuple(self._as_waited(entry.job) for entry in snapshot.entries.values())
        facts = Facts(snapshot.nodes, snapshot.queue_list, jobs, now=now)
        decisions = cycle.decide(snapshot, now)
        self.counts["decisions judged"] += 1
        for rule in RULES:
            for sentence in rule(facts, decisions):
                raise Broken("S3", sentence)
        return decisions

    def _as_waited(self, job: Job) -> Job:
        """A wait that has passed does not begin anew when the clock is set back."""
        return replace(job, not_before=0.0) if (job.id, job.not_before) in self.waited else job

    # -------------------------------------------------------------------- places where things befall it

    def who(self) -> object:
        return self.actors[-1] if self.actors else None

    def at_disk(self, place: str) -> None:
        if self.actors:
            if self.slow and place in ("before a write", "before a commit") and self.depth == 0:
                self._meanwhile(self.slow)
            self._befalls(place)

    def at_effect(self, place: str) -> None:
        self._befalls(place)

    def _befalls(self, place: str) -> None:
        if not self.actors:
            return
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.fuse = None
                raise Killed(place)
        if self.halt is not None and self.depth == 0:
            self.halt -= 1
            if self.halt < 0:
                self.halt = None
                self._is_replaced(place)

    def _meanwhile(self, seconds: float) -> None:
        """The world goes on while somebody waits."""
        self.depth += 1
        try:
            self.advance(seconds)
        finally:
            self.depth -= 1

    def _is_replaced(self, place: str) -> None:
        """Who acts stands still here; another takes over; then the first one wakes up and goes on."""
        old = self.actors[-1]
        self.note("halt", f"epoch {old.epoch} stands still {place}")
        self.depth += 1
        actors, self.actors = self.actors, []
        try:
            self.begin()
            self.advance(self.halted_for)
        finally:
            self.depth -= 1
            self.actors = actors
        self.note("wake", f"epoch {old.epoch} wakes up")
        self.later(0.0, lambda: self._goes_on(old))

    def _goes_on(self, old: ControlPlane) -> None:
        """One that is over has not noticed, tries to act in every way, and is gone."""
        if old.busy:
            self.later(1.0, lambda: self._goes_on(old))
            return
        if not old.fenced:
            old.loop.picture.touched |= old.loop.picture.holding
            old.loop.picture.undecided = True
            self.turn(old)
        if not old.fenced:
            self.sweep(old)
        if not old.fenced:
            self.note("fenced", f"epoch {old.epoch} had nothing to do and ends")
            old.die()

    # ------------------------------------------------------------------------------ what has happened

    def note(self, kind: str, text: str) -> None:
        """Count an event, and add it to the history."""
        self.counts[kind] += 1
        line = f"{self.now:.3f} {text}"
        self._digest.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def committed(
        self, who: object, before: Job | None, job: Job, event: Event | None, epoch: int | None
    ) -> None:
        what = "figures" if event is None else f"{event.kind}: {event.text}"
        self.note(
            "commit", f"{job.id} v{job.version} {job.phase.value} #{job.attempt}.{job.generation} {what}"
        )
        actor = Actor(who.epoch, who.loop) if isinstance(who, ControlPlane) else None
        self.promises.committed(before, job, event, actor, epoch, self.disk.epoch)
        if actor is not None:
            self._had_its_time(before, job, actor.epoch)

    def written(self) -> None:
        self.promises.written()

    def pruned(self, gone: Sequence[Job], before: float) -> None:
        for job in gone:
            self.note("removal", f"{job.id} is removed")
        self.promises.pruned(gone, before)
        self.pool.forget({job.id for job in gone})

    def _had_its_time(self, before: Job | None, job: Job, epoch: int) -> None:
        """A limit of time counts time that has passed, if one control plane was there all along."""
        attempt = (job.id, job.attempt)
        if job.phase is Phase.STARTING and (before is None or before.attempt != job.attempt):
            # It counts from when it was decided; a slow disk takes its time for that to be on record.
            self.began[attempt] = (self.now - (self.wall() - (job.started_at or 0.0)), epoch)
        ends = job.exit is not None and job.exit.cause is ExitCause.TIME
        if not ends or (before is not None and before.exit is not None) or attempt not in self.began:
            return
        began, then = self.began[attempt]
        limit = job.spec.max_runtime or 0.0
        if then == epoch and self.now - began < limit - 1.0:
            raise Broken("S5", f"{job.id} ended by its limit of {limit:g} s after {self.now - began:g} s")

    def effect(self, engine: Machines, verb: str, worker: WorkerId, spec: WorkerSpec | None) -> None:
        self.note("effect", f"{verb} {worker}")
        self.promises.effect(engine.epoch, verb, worker, spec)

    def begun(self, spec: WorkerSpec) -> None:
        self.promises.begun(spec)

    def message(self, fate: str, status: WorkerStatus) -> None:
        self.note(f"message {fate}", f"{status.id} {status.state.value}, {fate}")

    def spec_of(self, job: JobId) -> Nature:
        if job not in self.natures:
            spec = self.disk.job(job).spec
            self.natures[job] = Nature(
                poisoned="poison" in spec.name,
                endless=spec.type is JobType.SERVE or "borrower" in spec.name,
                meets="team" in spec.name,
                tries=spec.trial is not None,
            )
        return self.natures[job]

    def open_jobs(self) -> list[Job]:
        return [job for job in self.disk.every_job.values() if not job.terminal]

    def close(self) -> None:
        if self.plane is not None:
            self.plane.die()


class Complaints(logging.Handler):
    """What the control plane logs as an error, though nothing was done to it, is a broken promise."""

    EXPECTED = (
        "the store could not write",
        "the engine could not serve",
        "could not be read",
        "could not be stored",
        "a pass of the control loop failed",
        "this control plane no longer acts",
        "sweeps are no longer driven here",
    )

    def __init__(self) -> None:
        super().__init__(logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if any(words in text for words in self.EXPECTED):
            return
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, GrusError | OSError):
            return
        raise Broken("PASS", f"{text}: {type(error).__name__}: {error}" if error else text) from error


def _ignore(_: object) -> None:
    return None


def holding(world: World) -> list[Job]:
    return [job for job in world.disk.every_job.values() if job.phase in HOLDING and job.spec.has_workers]


def paused(world: World) -> list[Job]:
    return [job for job in world.open_jobs() if job.phase in (Phase.PAUSED, Phase.PAUSING)]
