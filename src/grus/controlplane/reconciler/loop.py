"""Control loop (reconciler): observe → decide → record → apply, repeatedly, until the actual state matches
the desired state.

It runs on a thread of its own for the life of a server, and is level-triggered: a pass acts on the known
state, not on the latest message, so that a lost, late or repeated message changes nothing. All its outside
actions follow from recorded state; a loop that dies at any point is followed by one that continues from the
record.

It must never act on something that is not recorded, free GPUs that are not confirmed free, or continue after
another control plane has taken over.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from grus.controlplane.artifacts.stores import ArtifactStores
from grus.controlplane.cluster_view import with_cordons
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.gpu_sizing.size_selection import JobSizer
from grus.controlplane.jobs import (
    apply_decision,
    lifecycle,
    replica_restarts,
    worker_group_membership,
)
from grus.controlplane.jobs.dependencies import Dependencies
from grus.controlplane.jobs.lifecycle import JobChange, waits_too_long
from grus.controlplane.reconciler import commit
from grus.controlplane.reconciler.apply_engine_calls import EngineCallExecutor, wanted
from grus.controlplane.reconciler.clock_jumps import ClockJumps
from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.controlplane.reconciler.drift import Audit
from grus.controlplane.reconciler.health import ControlLoopHealth
from grus.controlplane.reconciler.job_reports import JobReports
from grus.controlplane.reconciler.mailbox import Mailbox, Observations
from grus.controlplane.reconciler.speed_outlook import SpeedOutlook
from grus.controlplane.settings import Settings
from grus.controlplane.workers import exit_status
from grus.controlplane.workers.worker_launch_spec import Surroundings, members
from grus.model.activity_labels import Tag
from grus.model.backoff import backoff
from grus.model.errors import Fenced, GrusError, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import CORDONS, QUEUES, USERS, Engine, Store, WorkerState, WorkerStatus
from grus.model.jobs import HOLDING, TERMINAL, Phase
from grus.scheduler import cycle
from grus.scheduler.decisions import Decision, Decisions, Resize, Start
from grus.scheduler.placement.feasibility import never_fits
from grus.scheduler.state.snapshot import Snapshot

log = logging.getLogger(__name__)

Decide = Callable[[Snapshot, float], Decisions]
Tags = Callable[[float], Mapping[JobId, Tag]]
"""Tags of jobs at a moment; called often, under the loop's lock: it must answer from memory."""

NODES, TICK, RECHECK, DECIDE, RETRY = "@nodes", "@tick", "@recheck", "@decide", "@retry"
"""Timers of the loop itself; those of jobs have the job's id as key."""

SOONEST = 0.05
"""Seconds. A decision requested earlier than that is delayed, so that the loop does not spin."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds to wait after trouble with the store or the engine, doubled each time."""
REFRESH = 5.0
"""Seconds that somebody who changed a queue waits for a loop in trouble; the change is on record anyway."""


class ControlLoop:
    """One per server. `start` and `close` for a thread; `open` and `step` to drive it by hand."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        *,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] | None = None,
        decide: Decide = cycle.decide,
        snapshot: Snapshot | None = None,
        tags: Tags = lambda _: {},
        compare: Callable[[JobId], None] | None = None,
        profiles: Profiles | None = None,
        on_stopped: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Set up the loop. `steady` counts seconds regardless of changes to `clock`; by default `clock` is
        assumed to do so, unless it is the wall clock. `compare` requests the comparison of a stage with
        earlier runs; without it no stage waits for one.
        """
        self._store = store
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._make_decisions = decide
        self.tags = tags
        self._on_stopped = on_stopped
        self._mailbox = Mailbox()
        self._lock = threading.RLock()
        counts = steady or (time.monotonic if clock is time.time else clock)
        snapshot = Snapshot() if snapshot is None else snapshot
        profiles = profiles or Profiles()
        speed = SpeedOutlook(snapshot, profiles, containers=settings.containers)
        vaults = ArtifactStores(store, settings, lambda name: self.picture.unix_user(name))
        after = Dependencies(store, compare)
        self.picture = ClusterState(settings, ClockJumps(counts), snapshot, after, profiles, speed, vaults)
        """Others read its nodes, queues and their version, which are replaced whole and never changed."""
        self._audit = Audit(store, self.picture)
        self._reports = JobReports(store, engine, self.picture, speed.verdicts)
        self._sizes = JobSizer(
            profiles, lambda: self.picture.nodes, lambda spec: never_fits(self.picture.snapshot, spec)
        )
        self._hand = EngineCallExecutor(engine)
        self._retry: set[JobId] = set()
        self._refusals = 0
        self._listening: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._seen = 0.0
        """The time of the last pass."""
        self._delays_due = True
        """True if the jobs that wait after a failure must be checked."""
        self.pulse = ControlLoopHealth()

    # ---------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Take over and run until closed. Raises what keeps it from taking over."""
        self.open()
        self._thread = threading.Thread(target=self._run, name="control-loop", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Take over: from here on no other control plane can write, and nothing that happens is missed."""
        now = self._clock()
        self._listening = [
            self._store.subscribe(self._mailbox.jobs),
            self._engine.subscribe(self._mailbox.worker),
        ]
        self.pulse.epoch = self._store.take_over()
        self._engine.open(self.pulse.epoch)
        with self._lock:
            self._refresh()
            for job in self._store.jobs(phases=[phase for phase in Phase if phase not in TERMINAL]):
                self.picture.take(job, now)
            for status in self._engine.workers():
                self.picture.hear(status)
            self.picture.timers.set(NODES, now + self._settings.node_interval)
            self.picture.timers.set(TICK, now + self._settings.safety_tick)
        self._mailbox.wake()

    def close(self) -> None:
        """Stop acting; running workers continue. Idempotent."""
        self._mailbox.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for stop_listening in self._listening:
            stop_listening()
        self._listening = []

    def wake(self) -> None:
        """Ask for a pass now."""
        self._mailbox.wake()

    def refresh(self) -> None:
        """Wait until changed queues, users or cordons in the store apply to the next decisions.

        Only the loop's thread changes the cluster state; this waits for the pass in which it has read them.
        """
        done = self._mailbox.refresh()
        if self._thread is None:  # driven by hand: no thread to wait for
            with self._lock:
                self._refresh()
        elif not done.wait(REFRESH):
            log.warning("a change of queues, users or nodes is on record, but the loop has not read it yet")

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield the live snapshot; nothing else changes it meanwhile. The caller must not change it, and must
        be quick.
        """
        with self._lock:
            yield self.picture.snapshot

    @property
    def drift(self) -> int:
        """Return how often the recorded usage differed from the usage in memory since the start."""
        return self._audit.drift

    def _run(self) -> None:
        while not self._mailbox.closed:
            self._mailbox.wait(self._until_next())
            if self._mailbox.closed:
                return
            try:
                self.step(self._clock())
                self.pulse.troubles = 0
            except Fenced as error:
                self._stop_acting(str(error))
                return
            except Exception as error:  # noqa: BLE001 - the edge of the thread: the pool must not stand still
                self._stumble(error)

    def _until_next(self) -> float:
        if self.picture.touched or self.picture.freed:
            return 0.0
        at = self.picture.timers.next()
        tick = self._settings.safety_tick
        return tick if at is None else min(tick, max(0.0, at - self._clock()))

    def _stop_acting(self, why: str) -> None:
        self.pulse.stopped = why
        log.critical("this control plane no longer acts: %s", why)
        self._on_stopped(why)

    def _stumble(self, error: Exception) -> None:
        """Handle a pass that failed half-way. Everything is checked again soon; nothing is concluded
        from it.
        """
        self.pulse.troubles += 1
        self.pulse.trouble = f"{type(error).__name__}: {error}"
        log.error("a pass of the control loop failed; it is tried again", exc_info=error)
        with self._lock:
            self.picture.touched |= self.picture.holding
            self.picture.undecided = True
        self._mailbox.rest(backoff(self.pulse.troubles, FIRST_PAUSE, LONGEST_PAUSE))

    # ---------------------------------------------------------------------------------- one pass

    def step(self, now: float) -> None:
        """Run one pass over everything that is waiting. Raises Fenced."""
        began = time.perf_counter()
        with self._lock:
            self._follow_clock(now)
            self._observe(self._mailbox.take(), now)  # 1. observe: changes, and timers that are due
            observed = self._advance(now)  # 2. derive the changes of jobs
            reported = self._reports.changes(now, but={change.job.id for change in observed})
            self._reports.curves.write()  # before the jobs, and so in the same commit
        again = self._record(observed, now)
        self._record(reported, now)
        with self._lock:
            noticed = self._reports.notice(now)
        self._record(noticed, now)
        with self._lock:
            decided = self._decide(now)  # 3. decide
        self._record(decided, now)  # 4. record first,
        self._apply(now)  # 5. and only then apply
        self.picture.touched |= again
        self.pulse.passes += 1
        self.pulse.seconds = time.perf_counter() - began

    def settle(self, now: float, passes: int = 1000) -> None:
        """Run passes until there is nothing more to do without outside events; for tests and tools."""
        for _ in range(passes):
            self.step(now)
            if not (self.picture.touched or self.picture.freed or self._mailbox.waiting):
                return
        raise RuntimeError(f"the loop has not come to rest in {passes} passes")

    def _follow_clock(self, now: float) -> None:
        """Handle a clock that was set back: nothing must wait until the clock has caught up."""
        if leap := self.picture.leaps.look(now):
            log.warning("the clock was set %s by %.1f s", "back" if leap < 0 else "forward", abs(leap))
        if now < self._seen:
            self.picture.timers.bring_forward(self._seen - now)
        self._seen = now

    def _observe(self, heard: Observations, now: float) -> None:
        for job in heard.jobs:
            self.picture.echo(job, now)
        for status in self._believable(heard.workers):
            self.picture.hear(status)
        if heard.refresh:
            self._refresh()
        for done in heard.refresh:
            done.set()
        for key in self.picture.timers.due(now):
            self._come_due(key, now)

    def _believable(self, told: list[WorkerStatus]) -> list[WorkerStatus]:
        """Drop late reports of workers that are already forgotten: kept here, they would never be removed."""
        strange = {status.id for status in told if status.id not in self.picture.statuses(status.job)}
        if not strange:
            return told
        known = {status.id for status in self._engine.workers()}
        return [status for status in told if status.id not in strange or status.id in known]

    def _come_due(self, key: str, now: float) -> None:
        timers = self.picture.timers
        if key == NODES:
            self._refresh()
            tags = self.tags(now)
            self.picture.recognise(tags, now)
            self._reports.poll(tags)
            for id_ in self.picture.holding:
                job = self.picture.snapshot.job(id_)
                if job is not None and not all(seat.address for seat in job.staying):
                    self._reports.read_words(id_)  # in case a notification was lost
            timers.set(NODES, now + self._settings.node_interval)
        elif key == TICK:
            self._look_at_everything(now)
            timers.set(TICK, now + self._settings.safety_tick)
        elif key == RECHECK:
            self._audit.run(now)
        elif key == RETRY:
            self.picture.touched |= self._retry
            self.picture.freed |= self._retry  # the end of a job whose dependency failed may have been lost
            self.picture.undecided = True
            self._retry = set()
        else:
            self.picture.undecided = True
            if (job := self.picture.snapshot.job(JobId(key))) is not None:
                self.picture.touched.add(job.id)
                timers.set(job.id, self.picture.deadline(job, now))

    def _look_at_everything(self, now: float) -> None:
        """Run the slow periodic check, in case a message was lost: workers, usage, decisions."""
        for status in self._engine.workers():
            self.picture.hear(status)
        self.picture.touched |= self.picture.holding
        self.picture.undecided = True
        self._delays_due = True
        if self._audit.run(now):
            self.picture.timers.set(RECHECK, now + 1.0)

    def _refresh(self) -> None:
        self.picture.set_users(self._store.find(USERS))
        nodes = with_cordons(self._engine.nodes(), self._store.find(CORDONS))
        self.picture.set_pool(nodes, self._store.find(QUEUES))

    def _advance(self, now: float) -> list[JobChange]:
        picture = self.picture
        changes = []
        for id_ in sorted(picture.freed):  # sorted: the same events lead to the same writes
            job = picture.snapshot.job(id_)
            if job is not None and (change := picture.after.failure(job, now)) is not None:
                changes.append(change)
            else:
                picture.recheck(id_)
        picture.freed = set()
        if self._delays_due:
            self._delays_due = False
            waiting = [entry.job for entry in picture.snapshot.delayed(math.inf)]
            changes += [change for job in waiting if (change := waits_too_long(job, now))]
        for id_ in sorted(picture.touched & picture.holding):
            job = picture.snapshot.job(id_)
            if job is None:
                continue
            statuses = picture.statuses(id_)
            if worker_group_membership.complains(job, statuses, now):
                self._reports.read_words(id_)
            known = job
            if any(status.state is WorkerState.ENDED for status in statuses.values()):
                job = self._reports.with_report(job, now, last=True)  # before it is forgotten
                job, statuses = self._reports.with_outputs(job), picture.statuses(id_)
                known = job
            elif job.spec.trial is not None and id_ in picture.rung:
                job = self._reports.with_report(job, now)  # its sweep waits for that
            found = lifecycle.advance(job, statuses, now, picture.limits(job), self._sizes.after_end)
            if found is not None:
                changes.append(found)
                continue
            picture.timers.set(id_, picture.deadline(job, now))  # a new message may have set one
            if job is not known:
                changes.append(JobChange(job, None))
        picture.rung = set()
        return changes

    def _decide(self, now: float) -> list[JobChange]:
        if not self.picture.undecided:
            return []
        decisions = self._make_decisions(self.picture.snapshot, now)
        self.picture.undecided = False
        wake_at = decisions.wake_at
        self.picture.timers.set(DECIDE, None if wake_at is None else max(wake_at, now + SOONEST))
        changes = (
            self._rule(decision, now)
            for decision in sorted(decisions.actions, key=apply_decision.gives_first)
        )
        return [change for change in changes if change is not None]

    def _rule(self, decision: Decision, now: float) -> JobChange | None:
        job = self.picture.snapshot.job(decision.job)
        if job is None:
            return None
        if isinstance(decision, Start) and (larger := self._sizes.before_start(job)) is not None:
            assert larger.sizing is not None
            return lifecycle.change(larger, "sized", now, f"takes {larger.sizing.why}")
        grows = isinstance(decision, Resize) and len(decision.seats) > len(job.seats)
        if grows and not replica_restarts.apart(job):
            # A job with a finished worker is about to end: a new worker would start from nothing.
            statuses = self.picture.statuses(job.id)
            if any(exit_status.over(statuses.get(member.id)) for member in members(job)):
                return None
        return apply_decision.rule(job, decision, now)

    def _record(self, changes: list[JobChange], now: float) -> set[JobId]:
        """Write the changes; return the jobs that were written and may need more changes."""
        if not changes:
            return set()
        written = commit.write(self._store, changes, self.pulse.epoch)
        with self._lock:
            for job in written.jobs:
                self.picture.take(job, now)
                if job.terminal:
                    self._reports.curves.forget(job.id)
            for id_ in written.stale + written.failed:
                self._read_again(id_, now)
            if written.failed:
                self._try_later(set(written.failed), now)
            else:
                self._refusals = 0
        return {job.id for job in written.jobs if job.phase in HOLDING}

    def _read_again(self, id_: JobId, now: float) -> None:
        try:
            self.picture.take(self._store.job(id_), now)
        except NotFound:
            log.warning("job %s is no longer on record", id_)
        except (GrusError, OSError) as error:
            log.error("job %s could not be read: %s", id_, error)
            self._try_later({id_}, now)
        self.picture.undecided = True

    def _try_later(self, jobs: set[JobId], now: float) -> None:
        self._retry |= jobs
        self._refusals += 1
        self.picture.timers.set(RETRY, now + backoff(self._refusals, FIRST_PAUSE, LONGEST_PAUSE))

    def _apply(self, now: float) -> None:
        touched, self.picture.touched = self.picture.touched, set()
        for id_ in sorted(touched):
            job = self.picture.snapshot.job(id_)
            statuses = self.picture.statuses(id_)
            if job is None and not statuses:
                continue
            try:
                around = self.picture.surroundings(job) if job is not None else Surroundings()
                for effect in wanted(job, statuses, around, self._settings.failure_grace):
                    self._hand.do(effect, now)
                    self.picture.note_call(id_, effect, now)
            except Fenced:
                raise
            except (GrusError, OSError) as error:
                log.error("the engine could not serve job %s: %s", id_, error)
                self._try_later({id_}, now)
