"""Sweep driver: a thread that creates, pauses, resumes and ends trials as the search orders.

It runs for the life of a server beside the control loop and is level-triggered like it: each round acts on
recorded state, so that a lost, late or repeated message changes nothing, and the next server continues where
this one died. A trial is stored under a key made of its sweep and its number: a repeated creation finds the
existing one.

It must never touch a worker (the loop carries out what is recorded here), and it stops when another control
plane has taken over.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.jobs.dependencies import Dependencies
from grus.controlplane.jobs.lifecycle import JobChange
from grus.controlplane.reconciler import commit
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.sweeps import sweep_state_machine
from grus.controlplane.sweeps.capacity import room
from grus.controlplane.sweeps.trial_index import Trials
from grus.controlplane.sweeps.trial_spec import heard_rungs, key, trial_job
from grus.model.artifacts import Artifact
from grus.model.errors import Conflict, Fenced, GrusError, NotFound
from grus.model.identifiers import JobId, job_id
from grus.model.interfaces import Event, Store, Written
from grus.model.jobs import TERMINAL, Desired, Job, JobType, Phase
from grus.model.sweep_search import Sweep
from grus.tuning import decide_trials
from grus.tuning.orders import Finish, Order, Start
from grus.tuning.sweep_trials import TrialView, best_trial, best_value

log = logging.getLogger(__name__)

Decide = Callable[[Sweep, Sequence[TrialView], decide_trials.Room, float, float], tuple[Order, ...]]

PERIOD = 2.0
"""Seconds after which a sweep is checked although no message arrived: time passes, and budgets with it."""
LONGEST_REST = 1.0
"""Longest rest, in seconds: after a round the thread rests for as long as the round took, up to this."""
MOST_ROUNDS = 10
"""Steps of one sweep before the others get their turn."""


class Sweeper:
    """`start` and `close` for a thread; `open` and `step` to drive it by hand."""

    def __init__(
        self,
        store: Store,
        loop: ControlLoop,
        trials: Trials,
        *,
        clock: Callable[[], float] = time.time,
        entropy: Callable[[], int] = lambda: secrets.randbits(50),
        decide: Decide = decide_trials.decide,
    ) -> None:
        self._store = store
        self._loop = loop
        self._trials = trials
        self._decide = decide
        self._clock = clock
        self._entropy = entropy
        self._after = Dependencies(store)
        self._lock = threading.Lock()
        self._live: set[JobId] = set()
        """Sweeps that have not ended, or that have a trial which has not."""
        self._changed: set[JobId] = set()
        self._troubles: dict[JobId, str] = {}
        """Errors of sweeps that could not be driven at their last check."""
        self._looked = time.monotonic()
        """When all sweeps were checked last."""
        self._leave: Callable[[], None] = lambda: None
        self._thread = BackgroundThread("sweeps", self._check, first=None)

    # --------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Subscribe to the store, and find the sweeps that are under way."""
        self._leave = self._store.subscribe(self._hear)
        live = self._store.jobs(phases=[phase for phase in Phase if phase not in TERMINAL])
        self._hear([(job, None) for job in live])

    def close(self) -> None:
        """Stop. Idempotent."""
        self._leave()
        self._thread.close()

    def _hear(self, written: Sequence[Written]) -> None:
        found = {sweep for job, _ in written if (sweep := _sweep_of(job)) is not None}
        if found:
            with self._lock:
                self._live |= found
                self._changed |= found
            self._thread.wake()

    def _check(self) -> float | None:
        everything = time.monotonic() - self._looked >= PERIOD
        if everything:
            self._looked = time.monotonic()
        began = time.thread_time()
        try:
            self.step(self._clock(), everything=everything)
        except Fenced as error:
            log.critical("sweeps are no longer driven here: %s", error)
            self._thread.ask_to_close()
        self._thread.rest(min(LONGEST_REST, time.thread_time() - began))
        return PERIOD if self._live else None

    # ------------------------------------------------------------------------------------- one round

    def step(self, now: float, *, everything: bool = True) -> None:
        """Check the sweeps with new messages, or all live ones. Raises Fenced."""
        with self._lock:
            due = set(self._live if everything else self._changed)
            self._changed = set()
        for id_ in sorted(due):
            try:
                self._drive(id_, now)
                self._troubles.pop(id_, None)
            except Fenced:
                raise
            except Exception as error:
                # Boundary of the thread: one sweep that cannot be driven must not block the others.
                log.exception("sweep %s could not be driven; tried again soon", id_)
                self._troubles[id_] = f"{type(error).__name__}: {error}"

    def _drive(self, id_: JobId, now: float) -> None:
        """Repeat steps until the record is up to date."""
        for _ in range(MOST_ROUNDS):
            try:
                sweep = self._store.job(id_)
            except NotFound:
                break
            trials = self._trials.of(sweep)
            if sweep.terminal and all(trial.terminal for trial in trials):
                break
            if not self._round(sweep, trials, now):
                return
        else:
            with self._lock:
                self._changed.add(id_)  # there is more to do, after the others had their turn
            self._thread.wake()
            return
        with self._lock:
            self._live.discard(id_)

    def _round(self, sweep: Job, trials: list[Job], now: float) -> bool:
        """Return whether something was written, so that another round is useful."""
        searches, views = _searches(sweep), self._trials.views(sweep, now)
        if (searches or trials) and not sweep.terminal and self._tell(sweep, views, searches=searches):
            return True
        waits, failed = self._held_up(sweep, now)
        left = self._left(sweep, trials, now) if sweep.exit is not None else ()
        step = failed or (None if waits else sweep_state_machine.advance(sweep, trials, now, left))
        if step is not None:
            return bool(commit.write(self._store, [step], self._epoch).jobs)
        orders: tuple[Order, ...] = ()
        if searches:
            orders = self._orders(sweep, trials, views, now)
        changes = sweep_state_machine.ordered(sweep, trials, orders, now)
        touched = {change.job.id for change in changes}
        changes += [one for one in sweep_state_machine.bound(sweep, trials, now) if one.job.id not in touched]
        finish = [
            sweep_state_machine.finish(sweep, order, now) for order in orders if isinstance(order, Finish)
        ]
        written = commit.write(self._store, [*finish, *changes], self._epoch).jobs
        made = self._make(sweep, [order for order in orders if isinstance(order, Start)], now)
        return bool(written or made)

    def _held_up(self, sweep: Job, now: float) -> tuple[bool, JobChange | None]:
        """Check its dependencies: return whether it waits for them, and its end if one has failed."""
        if sweep.phase is not Phase.PENDING or not sweep.spec.after:
            return False, None
        failed = self._after.failure(sweep, now)
        return bool(self._after.note(sweep)), failed

    def _left(self, sweep: Job, trials: list[Job], now: float) -> tuple[Artifact, ...]:
        """Return the artifacts of the best trial that succeeded."""
        search = sweep.spec.sweep
        assert search is not None
        whole = {
            trial.spec.trial.number: trial
            for trial in trials
            if trial.phase is Phase.SUCCEEDED and trial.spec.trial is not None
        }
        views = [view for view in self._trials.views(sweep, now) if view.number in whole]
        best = best_trial(views, search.goal)
        return () if best is None else whole[best.number].artefacts

    def _orders(self, sweep: Job, trials: list[Job], views: list[TrialView], now: float) -> tuple[Order, ...]:
        """Return the orders of the search now."""
        search = sweep.spec.sweep
        assert search is not None
        with self._loop.snapshot() as snapshot:
            found = room(snapshot, sweep.spec, trials, now)
        since = now - self._trials.seconds(sweep, now)
        return self._decide(search, views, found, since, now)

    def _tell(self, sweep: Job, views: list[TrialView], *, searches: bool) -> bool:
        """Write the progress of the sweep, for users; return whether that was news."""
        search = sweep.spec.sweep
        assert search is not None
        best = best_trial(views, search.goal)
        standing = sweep_state_machine.SweepStatus(
            trials=len(views),
            ended=sum(view.ended for view in views),
            running=sum(view.running for view in views),
            best=None if best is None else best_value(best, search.goal),
            trouble=self._troubles.get(sweep.id, "") if searches else "",
        )
        told = sweep_state_machine.told(sweep, search.metric, standing)
        if told is sweep:
            return False
        return bool(commit.write(self._store, [JobChange(told, None)], self._epoch).jobs)

    def _make(self, sweep: Job, starts: list[Start], now: float) -> bool:
        """Store new trials; return whether there are any. Raises Fenced."""
        search = sweep.spec.sweep
        assert search is not None
        heard_at = heard_rungs(search.stopping)
        given: list[Future[Job]] = []
        for start in starts:
            job = trial_job(sweep, start, heard_at, job_id(self._entropy()), now)
            words = ", ".join(f"{name} = {value}" for name, value in start.params)
            text = f"trial {start.number} of sweep {sweep.id}: {words}"
            event = Event(at=now, kind="submitted", text=text, job=job.id)
            given.append(self._store.create(job, event, key(sweep.id, start.number), self._epoch))
        for future in given:
            try:
                future.result()
            except Fenced:
                raise
            except Conflict as error:  # made before with other parameters: that one counts
                log.warning("a trial of sweep %s is there already: %s", sweep.id, error)
            except (GrusError, OSError) as error:
                log.error("a trial of sweep %s could not be stored: %s", sweep.id, error)
                return False
        return bool(given)

    @property
    def _epoch(self) -> int:
        return self._loop.pulse.epoch


def _sweep_of(job: Job) -> JobId | None:
    """Return the sweep that a write is about."""
    if job.spec.type is JobType.SWEEP:
        return job.id
    return None if job.spec.trial is None else job.spec.trial.sweep


def _searches(sweep: Job) -> bool:
    """Return whether trials are created and evaluated now."""
    at_work = sweep.phase in (Phase.STARTING, Phase.RUNNING) and sweep.desired is Desired.RUN
    return at_work and sweep.exit is None
