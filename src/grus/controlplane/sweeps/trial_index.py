"""Trials of sweeps, from the record: the list of trials, their metrics, and their resource use.

Lives as long as a server, for any thread. It receives writes and keeps no state of its own: the first
request, also after a restart, gets the same from the store.
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from grus.controlplane.sweeps.trial_spec import resumable
from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, Event, Store, Written
from grus.model.jobs import Job, PauseCause
from grus.model.metrics_history import Reported
from grus.model.resources import GPU
from grus.model.sweep_search import Sweep
from grus.simulator.workload.job_history import RUNNING, STOPS
from grus.tuning.sweep_trials import Curve, TrialView

PAGE = 500
MOST_SWEEPS = 50
"""Sweeps whose trials are kept in memory at a time; the least recently requested ones are dropped."""


@dataclass(slots=True)
class Ledger:
    """Resource use of a job so far, from its events."""

    seq: int = 0
    """Number of the last event that was counted."""
    at: float = 0.0
    held: int = 0
    runs: bool = False
    gpu_seconds: float = 0.0
    seconds: float = 0.0

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            self._pass(event.at)
            self.seq = event.seq
            self.held = self.held if event.held is None else event.held
            self.runs = event.kind == RUNNING or (self.runs and event.kind not in STOPS)

    def until(self, now: float) -> tuple[float, float]:
        """Return the GPU-seconds held and seconds run by then."""
        more = max(0.0, now - self.at) if self.at else 0.0
        return self.gpu_seconds + more * self.held / GPU, self.seconds + (more if self.runs else 0.0)

    def _pass(self, at: float) -> None:
        self.gpu_seconds, self.seconds = self.until(at)
        self.at = max(self.at, at)


@dataclass(slots=True)
class _TrialProgress:
    """Data read about one job, and the version of the job that it belongs to."""

    version: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    curve: Curve = ()
    heard: int = 0
    """Attempt of the newest report that is kept."""


class Trials:
    """Trials of sweeps; see the head of this file."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hearing = threading.Lock()
        """Lock that is never held while the store is queried: the store's own thread takes it."""
        self._jobs: dict[JobId, dict[int, Job]] = {}
        self._reading = threading.Lock()
        self._known: dict[JobId, _TrialProgress] = {}
        self._leave: Callable[[], None] = store.subscribe(self._hear)

    def close(self) -> None:
        """Stop. Idempotent."""
        self._leave()

    def of(self, sweep: Job) -> list[Job]:
        """Return the trials in the order of their numbers, as last committed."""
        with self._hearing:
            known = sweep.id in self._jobs
            mine = self._jobs.pop(sweep.id, {})
            self._jobs[sweep.id] = mine  # the most recently requested one
            gone = list(self._jobs)[:-MOST_SWEEPS]
            forgotten = [job.id for id_ in gone for job in self._jobs.pop(id_).values()]
        if not known:
            self._read(sweep)
        self._forget(forgotten)
        with self._hearing:
            return [mine[number] for number in sorted(mine)]

    def views(self, sweep: Job, now: float) -> list[TrialView]:
        """Return the trials as the search sees them."""
        assert sweep.spec.sweep is not None
        return [self._view(job, sweep.spec.sweep, now) for job in self.of(sweep)]

    def seconds(self, job: Job, now: float) -> float:
        """Return the seconds that a sweep has been at work so far, without its pauses."""
        return self._look(job, None).ledger.until(now)[1]

    # ------------------------------------------------------------------------------------------ reading

    def _hear(self, written: Sequence[Written]) -> None:
        with self._hearing:
            for job, _ in written:
                self._take(job)

    def _take(self, job: Job) -> None:
        trial = job.spec.trial
        mine = None if trial is None else self._jobs.get(trial.sweep)
        if trial is None or mine is None:
            return
        before = mine.get(trial.number)
        if before is None or before.version < job.version:
            mine[trial.number] = job

    def _read(self, sweep: Job) -> None:
        """Read the trials on record: all were submitted after their sweep, by the same user to the same
        queue.
        """
        after = None
        while page := self._store.jobs(user=sweep.user, queue=sweep.spec.queue, limit=PAGE, after=after):
            with self._hearing:
                for job in page:
                    self._take(job)
            after = (page[-1].submitted_at, page[-1].id)
            if after[0] < sweep.submitted_at:
                return

    def _forget(self, jobs: Iterable[JobId]) -> None:
        with self._reading:
            for id_ in jobs:
                self._known.pop(id_, None)

    def _look(self, job: Job, sweep: Sweep | None) -> _TrialProgress:
        """Return the record beside the job itself; read again when the job was written again."""
        with self._reading:
            known = self._known.setdefault(job.id, _TrialProgress())
            if known.version < job.version:
                while page := self._store.events(job=job.id, after=known.ledger.seq):
                    known.ledger.take(page)
                if sweep is not None:
                    reports = self._store.find(REPORTS, job=job.id)
                    known.curve = curve(job, reports, sweep)
                    known.heard = reports[-1].attempt if reports else 0
                known.version = job.version
            return known

    def _view(self, job: Job, sweep: Sweep, now: float) -> TrialView:
        assert job.spec.trial is not None
        known = self._look(job, sweep)
        searched = {axis.name for axis in sweep.axes}
        gpu_seconds, seconds = known.ledger.until(now if job.ended_at is None else job.ended_at)
        return TrialView(
            number=job.spec.trial.number,
            params=tuple(one for one in job.spec.params if one[0] in searched),
            phase=job.phase,
            curve=known.curve,
            gpu_seconds=gpu_seconds,
            seconds=seconds,
            resumable=resumable(job),
            held_back=not job.terminal and job.paused_by is PauseCause.RUNG,
            fresh=job.attempt > 1 and known.heard != job.attempt,
            grown=job.grown,
        )


def curve(job: Job, reports: Iterable[Reported], sweep: Sweep) -> Curve:
    """Return progress and the value of the metric there; steps that were repeated after a pause count once.

    The newest metrics are on the job itself: the last reports may not be kept. A metric that is no longer a
    number ends the curve with NaN.
    """
    by, metric = sweep.stopping.by, sweep.metric
    found: dict[float, float] = {}
    for figures in (*(one.figures for one in reports), job.progress):
        said = dict(figures)
        if metric in said:
            found[said.get(by, len(found) + 1.0)] = said[metric]
    points = sorted(found.items())
    if metric in job.diverged:
        points.append((dict(job.progress).get(by, points[-1][0] if points else 0.0), math.nan))
    return tuple(points)
