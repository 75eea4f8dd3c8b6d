"""What will become of the live jobs, kept up to date beside the control loop, and held against what then was.

A thread of its own copies the snapshot when something has changed, asks the oracle, and puts the answers
where everybody can read them. It is never in the way of the loop: the copy takes a moment, the answers are
computed elsewhere, and between two questions there is a pause of several times what the last one took. What
was first foreseen of a job is stored; how such forecasts did in the past corrects how the next are read.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

from grus.controlplane import pool
from grus.controlplane.loop import ControlLoop
from grus.controlplane.oracle import Oracle, OracleLost, OracleProcess
from grus.controlplane.running import Running
from grus.model.errors import NotFound
from grus.model.identifiers import JobId
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.ports import Event, Prediction, Store
from grus.simulation.calibration import Calibration, Outcome, calibrate, outcome
from grus.simulation.chances import Chances
from grus.simulation.eta import HORIZON, Forecast, Present
from grus.simulation.expected import Standing
from grus.simulation.foretelling import Ask, Fact

log = logging.getLogger(__name__)

SETTLE = 1.0
"""Seconds that changes have to come together before they are looked at."""
PAUSE = 5.0
"""Seconds between two questions at least; and so many times what the last one took:"""
PAUSE_FACTOR = 4.0
REFRESH = 30.0
"""Seconds after which time alone is a reason to ask again."""
REMEMBERED = 5000
"""Ended jobs that the oracle is told of when it begins."""
MOST_ASKED = 2000
"""Jobs of which a forecast is made: those that run, and the first in line. Who comes after so many others has
none, and an answer for all of them would hold up everybody who asks the server something."""
AT_ONCE = 200
"""Forecasts stored in one go, so that who submits meanwhile does not wait for all of them."""
KEPT = 1000
"""Past forecasts that are held against what happened."""
WAITED = 1.0
"""Seconds: a start foreseen no later than that was one at once, and says nothing of forecasts of waits."""
PLAN_PATIENCE = 5.0
"""Seconds that somebody who plans a job waits for the oracle to be free."""
BEYOND = 10 * HORIZON
"""Stands in the store for a moment that lies beyond what was looked at."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What people are told of a job: moments by which, with a chance of one half and of nine tenths."""

    at: float
    """When it was foreseen."""
    start_p50: float | None = None
    """None of a job that runs, and of what lies too far away or cannot be said."""
    start_p90: float | None = None
    end_p50: float | None = None
    end_p90: float | None = None
    unknown: str = ""
    """Why something cannot be said."""


def in_order(found: Expectation, waits: bool) -> Expectation:
    """The same with no end before its start: both are corrected by themselves by how forecasts did."""
    if not waits or found.end_p50 is None:
        return found
    if found.start_p50 is None:
        return replace(found, end_p50=None, end_p90=None)
    end_p50 = max(found.end_p50, found.start_p50)
    if found.start_p90 is None or found.end_p90 is None:
        return replace(found, end_p50=end_p50, end_p90=None)
    return replace(found, end_p50=end_p50, end_p90=max(found.end_p90, found.start_p90, end_p50))


@dataclass(frozen=True, slots=True)
class Record:
    """How forecasts did: of ends, and of the starts of jobs that had to wait."""

    ends: Calibration
    starts: Calibration


class Forecaster:
    """`start` and `close` for a thread; `step` to drive it by hand. Reading is for any thread."""

    def __init__(
        self,
        store: Store,
        loop: ControlLoop,
        *,
        clock: Callable[[], float] = time.time,
        oracle: Oracle | None = None,
    ) -> None:
        self._store = store
        self._loop = loop
        self._clock = clock
        self._oracle = oracle or OracleProcess()
        self._asking = threading.Lock()
        self._running = Running(store)
        self._heard: list[Job] = []
        self._heard_lock = threading.Lock()
        self._changed, self._closing = threading.Event(), threading.Event()
        self._primed = False
        self._foreseen: set[JobId] = set()
        """Live jobs of which this server has stored what was foreseen: maybe many more than are kept here."""
        self._told: Mapping[JobId, Expectation] = {}
        self._predictions: dict[JobId, Prediction] = {}
        self._outcomes: dict[JobId, tuple[float | None, float | None]] = {}
        """Of each job with a prediction: when it really started and ended, as far as it has."""
        self.record = Record(calibrate(()), calibrate(()))
        self._leave: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)

    def start(self) -> None:
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Begin to listen, and read how earlier forecasts did."""
        self._leave = self._store.subscribe(self._hear)
        for prediction in self._store.predictions(KEPT):
            try:
                job = self._store.job(prediction.job)
            except NotFound:
                continue
            self._predictions[job.id] = prediction
            self._note_outcome(job)
        self._learn_from_past(self._clock())
        self._changed.set()

    def close(self) -> None:
        """Idempotent."""
        self._closing.set()
        self._changed.set()
        self._leave()
        self._oracle.close()
        if self._thread.is_alive():
            self._thread.join()

    # -------------------------------------------------------------------------------------- reading

    def of(self, job: JobId) -> Expectation | None:
        """What is foreseen of a live job; None if it was not looked at yet."""
        return self._told.get(job)

    def planned(self, job: Job, after: tuple[JobId, ...], now: float) -> Expectation | None:
        """What would become of this job if it were submitted now; None if nobody has time to work it out."""
        if not self._asking.acquire(timeout=PLAN_PATIENCE):
            return None
        try:
            present = self._present(now, Standing(job, after=after, limit=self._limit(job)))
            self._tell_oracle()
            found = self._oracle.foresee(Ask(present, (job.id,)))
            return self._expectation(found[job.id]) if job.id in found else None
        except OracleLost as error:
            self._forget(error)
            return None
        finally:
            self._asking.release()

    # -------------------------------------------------------------------------------------- keeping up

    def _run(self) -> None:
        while not self._closing.is_set():
            self._changed.wait(self._until_next())
            self._closing.wait(SETTLE)
            if self._closing.is_set():
                return
            self._changed.clear()
            began = time.perf_counter()
            try:
                self.step(self._clock())
            except Exception:  # the edge of the thread: a forecast is no reason to stop forecasting
                log.exception("forecasts could not be kept up to date; tried again later")
            self._closing.wait(max(PAUSE, PAUSE_FACTOR * (time.perf_counter() - began)))

    def _until_next(self) -> float | None:
        """Seconds after which time alone makes forecasts stale: what was foreseen should have happened."""
        told = self._told.values()
        if not told:
            return None
        moments = [at for one in told for at in (one.start_p50, one.end_p50) if at is not None]
        return max(0.0, min([REFRESH, *(at - self._clock() for at in moments)]))

    def step(self, now: float) -> None:
        """Look at everything once."""
        with self._asking:
            heard = self._take_heard()
            for job in heard:
                self._note_outcome(job)
            present = self._present(now)
            try:
                if present.jobs or self._primed:
                    self._tell_oracle(heard)
                found = self._oracle.foresee(Ask(present, _first(present))) if present.jobs else {}
            except OracleLost as error:
                if not self._closing.is_set():
                    self._forget(error)
                return
        self._learn_from_past(now)
        self._told = {job: self._expectation(one) for job, one in found.items()}
        self._keep(found.values())

    def _hear(self, written: Sequence[tuple[Job, Event | None]]) -> None:
        with self._heard_lock:
            self._heard += [job for job, event in written if event is not None and job.spec.has_workers]
        self._changed.set()

    def _take_heard(self) -> list[Job]:
        with self._heard_lock:
            heard, self._heard = self._heard, []
        return heard

    def _present(self, now: float, *more: Standing) -> Present:
        with self._loop.snapshot() as snapshot:
            jobs = [(entry.job, entry.blocked, entry.outlook) for entry in snapshot.entries.values()]
            nodes, queues, policy = snapshot.nodes, snapshot.queue_list, snapshot.policy.name
        live = {job.id for job, _, _ in jobs}
        standing = []
        for job, blocked, outlook in jobs:
            awaited = tuple(other for other in job.spec.after if other in live) if blocked else ()
            if awaited or not blocked:
                ran = self._running.so_far(job, now)
                standing.append(Standing(job, ran, self._limit(job), awaited, outlook))
        return Present(now, nodes, queues, (*standing, *more), policy)

    def _limit(self, job: Job) -> float | None:
        attempt = pool.max_runtime(job, self._loop.picture.by_name)
        return None if attempt is None else self._running.before(job) + attempt

    # ---------------------------------------------------------------------------------------- the oracle

    def _tell_oracle(self, heard: Sequence[Job] = ()) -> None:
        """Bring its knowledge up to date; all of it, if it has none."""
        if self._primed:
            facts = [self._fact(job) for job in heard]
        else:
            ended = self._store.jobs(phases=tuple(TERMINAL), limit=REMEMBERED)
            live = self._store.jobs(phases=[phase for phase in Phase if phase not in TERMINAL])
            facts = [self._fact(job) for job in (*ended, *live) if job.spec.has_workers]
        self._oracle.learn(facts)
        self._primed = True

    def _fact(self, job: Job) -> Fact:
        return Fact(job, self._running.in_all(job) if job.terminal else self._running.before(job))

    def _forget(self, error: OracleLost) -> None:
        self._primed = False
        log.error("%s; it is started anew", error)

    # ------------------------------------------------------------------------------------- calibration

    def _expectation(self, one: Forecast) -> Expectation:
        starts, ends = self.record.starts, self.record.ends
        at_once = one.start is not None and one.start.at[-1] <= one.at + WAITED
        found = Expectation(
            at=one.at,
            start_p50=one.at if at_once else _moment(one.start, starts.level(0.5), one.at),
            start_p90=one.at if at_once else _moment(one.start, starts.level(0.9), one.at),
            end_p50=_moment(one.end, ends.level(0.5), one.at),
            end_p90=_moment(one.end, ends.level(0.9), one.at),
            unknown=one.unknown,
        )
        return in_order(found, waits=one.start is not None)

    def _keep(self, found: Collection[Forecast]) -> None:
        """Store what was foreseen first of each job."""
        new = [
            Prediction(job=one.job, at=one.at, start=_stored(one.start, one.at), end=_stored(one.end, one.at))
            for one in found
            if one.end is not None and not (one.job in self._foreseen or one.job in self._predictions)
        ]
        self._foreseen = self._foreseen & {one.job for one in found} | {one.job for one in new}
        for begin in range(0, len(new), AT_ONCE):
            self._store.put_predictions(new[begin : begin + AT_ONCE]).exception()  # waits; it may do without
        self._predictions |= {one.job: one for one in new}
        self._outcomes |= {one.job: (None, None) for one in new}
        while len(self._predictions) > KEPT:
            oldest = next(iter(self._predictions))
            del self._predictions[oldest]
            self._outcomes.pop(oldest, None)

    def _note_outcome(self, job: Job) -> None:
        if job.id in self._predictions:
            self._outcomes[job.id] = (job.first_started_at, job.ended_at if job.terminal else None)

    def _learn_from_past(self, now: float) -> None:
        ends: list[Outcome] = []
        starts: list[Outcome] = []
        for one in sorted(self._predictions.values(), key=lambda one: (one.at, one.job)):
            started, ended = self._outcomes.get(one.job, (None, None))
            if one.end:
                ends.append(outcome(Chances(one.end), ended, now))
            if one.start and one.start[-1] > one.at + WAITED and not (ended and not started):
                starts.append(outcome(Chances(one.start), started, now))
        self.record = Record(calibrate(ends), calibrate(starts))


def _first(present: Present) -> tuple[JobId, ...] | None:
    """Of whom to ask, if not of all."""
    if len(present.jobs) <= MOST_ASKED:
        return None
    jobs = (one.job for one in present.jobs)
    return tuple(
        job.id for job in nsmallest(MOST_ASKED, jobs, key=lambda job: (not job.held, job.submitted_at))
    )


def _moment(chances: Chances | None, level: float, now: float) -> float | None:
    if chances is None:
        return None
    at = chances.quantile(level)
    return at if at - now < HORIZON else None


def _stored(chances: Chances | None, now: float) -> tuple[float, ...]:
    return () if chances is None else tuple(min(at, now + BEYOND) for at in chances.at)
