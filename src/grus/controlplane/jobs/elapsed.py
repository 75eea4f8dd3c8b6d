"""Run time of jobs, over all their attempts, from the record."""

from grus.model.identifiers import JobId
from grus.model.interfaces import Store
from grus.model.jobs import HOLDING, Job
from grus.simulator.workload.job_history import HistoryEvent, seconds_run

PAGE = 1000


class Running:
    """Run times of live jobs; remembers the sum of each job's earlier attempts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: dict[JobId, tuple[tuple[int, bool], float]] = {}

    def before(self, job: Job) -> float:
        """Return the seconds that it ran in attempts that are over."""
        holding = job.phase in HOLDING
        if job.attempt == 0 or (job.attempt == 1 and holding):
            return 0.0
        turn = (job.attempt, holding)
        known = self._before.get(job.id)
        if known is None or known[0] != turn:
            known = (turn, self._by_events(job))
            self._before[job.id] = known
        return known[1]

    def so_far(self, job: Job, now: float) -> float:
        """Return the seconds that it has run by now."""
        present = now - job.started_at if job.phase in HOLDING and job.started_at is not None else 0.0
        return self.before(job) + max(0.0, present)

    def in_all(self, job: Job) -> float:
        """Return the seconds that an ended job ran."""
        self._before.pop(job.id, None)
        if job.attempt > 1:
            return self._by_events(job)
        return seconds_run((), job.started_at, job.ended_at)

    def _by_events(self, job: Job) -> float:
        happened = [
            HistoryEvent(event.at, event.kind) for event in self._store.events(job=job.id, limit=PAGE)
        ]
        return seconds_run(happened, job.started_at, job.ended_at)
