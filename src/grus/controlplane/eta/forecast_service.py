"""Forecasts for live jobs, kept up to date beside the control loop and compared with what then happened.

A separate thread copies the snapshot when something has changed, asks the forecaster, and publishes the
answers where everybody can read them. It never blocks the loop: the copy takes a moment, the answers are
computed elsewhere, and the pause between two requests is several times as long as the last request took. The
first forecast of a job is stored; the errors of past forecasts correct the next ones.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane import cluster_view
from grus.controlplane.eta.forecast_process import ForecastProcess, ForecastProcessLost, ForecastService
from grus.controlplane.jobs.elapsed import Running
from grus.controlplane.reconciler.loop import ControlLoop
from grus.model.errors import NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import PREDICTIONS, Prediction, Store, Written
from grus.model.jobs import TERMINAL, Job, Phase
from grus.simulator.forecasting.calibration import Calibration, ForecastOutcome, calibrate, outcome
from grus.simulator.forecasting.eta_prediction import HORIZON, Forecast, Present
from grus.simulator.forecasting.expected_duration import ForecastJob
from grus.simulator.forecasting.live_forecast_service import Fact, ForecastQuery
from grus.simulator.forecasting.quantiles import Chances

log = logging.getLogger(__name__)

SETTLE = 1.0
"""Seconds for which changes are collected before they are processed."""
PAUSE = 5.0
"""Shortest pause between two requests, in seconds; the pause is also a multiple of the last request's
duration:
"""
PAUSE_FACTOR = 4.0
REFRESH = 30.0
"""Seconds after which a new forecast is due even without changes."""
REMEMBERED = 5000
"""Number of ended jobs passed to the forecaster when it starts."""
MOST_ASKED = 2000
"""Maximum number of forecast jobs: the running ones, and the first in line. Jobs behind so many others get no
forecast, and forecasts for all of them would delay every request to the server.
"""
AT_ONCE = 200
"""Forecasts stored in one go, so that a submission meanwhile does not wait for all of them."""
KEPT = 1000
"""Past forecasts that are compared with the outcomes."""
WAITED = 1.0
"""Seconds: a forecast start no later than this counts as immediate, and does not measure forecasts of
waits.
"""
PLAN_PATIENCE = 5.0
"""Seconds that a user who plans a job waits for the forecaster to be free."""
BEYOND = 10 * HORIZON
"""Value in the store for a time beyond the forecast horizon."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Forecast of a job as users see it: times with a probability of 50% (p50) and of 90% (p90)."""

    at: float
    """Time of the forecast."""
    start_p50: float | None = None
    """None for a job that runs, and for times that lie too far away or are unknown."""
    start_p90: float | None = None
    end_p50: float | None = None
    end_p90: float | None = None
    unknown: str = ""
    """Reason why a time is unknown."""


def in_order(found: Expectation, waits: bool) -> Expectation:
    """Return the same with no end before its start: both are corrected separately by the calibration."""
    if not waits or found.end_p50 is None:
        return found
    if found.start_p50 is None:
        return replace(found, end_p50=None, end_p90=None)
    end_p50 = max(found.end_p50, found.start_p50)
    if found.start_p90 is None or found.end_p90 is None:
        return replace(found, end_p50=end_p50, end_p90=None)
    return replace(found, end_p50=end_p50, end_p90=max(found.end_p90, found.start_p90, end_p50))


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Calibration of past forecasts: of ends, and of the starts of jobs that had to wait."""

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
        oracle: ForecastService | None = None,
    ) -> None:
        self._store = store
        self._loop = loop
        self._clock = clock
        self._oracle = oracle or ForecastProcess()
        self._asking = threading.Lock()
        self._running = Running(store)
        self._heard: list[Job] = []
        self._heard_lock = threading.Lock()
        self._primed = False
        self._foreseen: set[JobId] = set()
        """Live jobs whose first forecast this server has stored: maybe many more than are kept here."""
        self._told: Mapping[JobId, Expectation] = {}
        self._predictions: dict[JobId, Prediction] = {}
        self._outcomes: dict[JobId, tuple[float | None, float | None]] = {}
        """Actual start and end of each job with a forecast, as far as they have happened."""
        self.record = ForecastAccuracy(calibrate(()), calibrate(()))
        self._leave: Callable[[], None] = lambda: None
        self._thread = BackgroundThread("forecasts", self._round, first=None, settle=SETTLE)

    def start(self) -> None:
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Subscribe to changes, and read the calibration of earlier forecasts."""
        self._leave = self._store.subscribe(self._hear)
        for prediction in self._store.find(PREDICTIONS, limit=KEPT):
            try:
                job = self._store.job(prediction.job)
            except NotFound:
                continue
            self._predictions[job.id] = prediction
            self._note_outcome(job)
        self._learn_from_past(self._clock())
        self._thread.wake()

    def close(self) -> None:
        """Stop. Idempotent."""
        self._thread.ask_to_close()
        self._leave()
        self._oracle.close()
        self._thread.close()

    # -------------------------------------------------------------------------------------- reading

    def of(self, job: JobId) -> Expectation | None:
        """Return the forecast of a live job; None if there is none yet."""
        return self._told.get(job)

    def planned(self, job: Job, after: tuple[JobId, ...], now: float) -> Expectation | None:
        """Return the forecast of this job if it were submitted now; None if the forecaster is busy."""
        if not self._asking.acquire(timeout=PLAN_PATIENCE):
            return None
        try:
            present = self._present(now, ForecastJob(job, after=after, limit=self._limit(job)))
            self._tell_oracle()
            found = self._oracle.foresee(ForecastQuery(present, (job.id,)))
            return self._expectation(found[job.id]) if job.id in found else None
        except ForecastProcessLost as error:
            self._forget(error)
            return None
        finally:
            self._asking.release()

    # ---------------------------------------------------------------------------------------- updating

    def _round(self) -> float | None:
        began = time.perf_counter()
        try:
            self.step(self._clock())
        except Exception:  # the edge of the thread: one failed forecast must not end forecasting
            log.exception("forecasts could not be kept up to date; tried again later")
        self._thread.rest(max(PAUSE, PAUSE_FACTOR * (time.perf_counter() - began)))
        return self._until_next()

    def _until_next(self) -> float | None:
        """Return the seconds after which forecasts are stale even without changes: a forecast event should
        have happened.
        """
        told = self._told.values()
        if not told:
            return None
        moments = [at for one in told for at in (one.start_p50, one.end_p50) if at is not None]
        return max(0.0, min([REFRESH, *(at - self._clock() for at in moments)]))

    def step(self, now: float) -> None:
        """Update the forecasts once."""
        with self._asking:
            heard = self._take_heard()
            for job in heard:
                self._note_outcome(job)
            present = self._present(now)
            try:
                if present.jobs or self._primed:
                    self._tell_oracle(heard)
                found = self._oracle.foresee(ForecastQuery(present, _first(present))) if present.jobs else {}
            except ForecastProcessLost as error:
                if not self._thread.closing.is_set():
                    self._forget(error)
                return
        self._learn_from_past(now)
        self._told = {job: self._expectation(one) for job, one in found.items()}
        self._keep(found.values())

    def _hear(self, written: Sequence[Written]) -> None:
        with self._heard_lock:
            self._heard += [job for job, event in written if event is not None and job.spec.has_workers]
        self._thread.wake()

    def _take_heard(self) -> list[Job]:
        with self._heard_lock:
            heard, self._heard = self._heard, []
        return heard

    def _present(self, now: float, *more: ForecastJob) -> Present:
        with self._loop.snapshot() as snapshot:
            jobs = [(entry.job, entry.blocked, entry.outlook) for entry in snapshot.entries.values()]
            nodes, queues, policy = snapshot.nodes, snapshot.queue_list, snapshot.policy.name
            limits = dict(snapshot.user_limits)
        live = {job.id for job, _, _ in jobs}
        standing = []
        for job, blocked, outlook in jobs:
            awaited = tuple(other for other in job.spec.after if other in live) if blocked else ()
            if awaited or not blocked:
                ran = self._running.so_far(job, now)
                standing.append(ForecastJob(job, ran, self._limit(job), awaited, outlook))
        return Present(now, nodes, queues, (*standing, *more), policy, limits)

    def _limit(self, job: Job) -> float | None:
        attempt = cluster_view.max_runtime(job, self._loop.picture.by_name)
        return None if attempt is None else self._running.before(job) + attempt

    # ------------------------------------------------------------------------------------ the forecaster

    def _tell_oracle(self, heard: Sequence[Job] = ()) -> None:
        """Send the forecaster the facts that it lacks; all of them, if it has none."""
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

    def _forget(self, error: ForecastProcessLost) -> None:
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
        """Store the first forecast of each job."""
        new = [
            Prediction(job=one.job, at=one.at, start=_stored(one.start, one.at), end=_stored(one.end, one.at))
            for one in found
            if one.end is not None and not (one.job in self._foreseen or one.job in self._predictions)
        ]
        self._foreseen = self._foreseen & {one.job for one in found} | {one.job for one in new}
        for begin in range(0, len(new), AT_ONCE):
            self._store.put(
                PREDICTIONS, *new[begin : begin + AT_ONCE]
            ).exception()  # waits; errors are ignored
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
        ends: list[ForecastOutcome] = []
        starts: list[ForecastOutcome] = []
        for one in sorted(self._predictions.values(), key=lambda one: (one.at, one.job)):
            started, ended = self._outcomes.get(one.job, (None, None))
            if one.end:
                ends.append(outcome(Chances(one.end), ended, now))
            if one.start and one.start[-1] > one.at + WAITED and not (ended and not started):
                starts.append(outcome(Chances(one.start), started, now))
        self.record = ForecastAccuracy(calibrate(ends), calibrate(starts))


def _first(present: Present) -> tuple[JobId, ...] | None:
    """Return the jobs to forecast, if not all of them."""
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
