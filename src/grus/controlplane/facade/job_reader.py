"""Jobs as users see them: listings, events, explanations, forecasts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from grus.controlplane.eta.forecast_service import Expectation, Forecaster
from grus.controlplane.event_log import last_seq
from grus.controlplane.monitoring.explain_messages import Remarks
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.visibility import JobVisibility
from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import PROFILES, Event, Store, User, Written
from grus.model.jobs import Job, PauseCause, Phase
from grus.model.profiles import JobProfile, ProfiledRun
from grus.scheduler.explain import Explanation, explain

HIDDEN = JobId("")
"""Placeholder for a job that the caller may not know."""
PAGE = 500


@dataclass(eq=False)
class JobReader:
    """One a server, for any thread."""

    _store: Store
    _loop: ControlLoop
    _visible: JobVisibility
    _remarks: Remarks
    _forecaster: Forecaster | None
    _clock: Callable[[], float]
    last_event: int = 0
    """Number of the newest event."""
    close: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self.close = self._store.subscribe(self._note_events)
        self.last_event = max(self.last_event, last_seq(self._store))

    def listed(
        self,
        user: User,
        *,
        phases: Sequence[Phase] | None = None,
        queue: QueueName | None = None,
        mine: bool = False,
        limit: int | None = None,
        after: JobId | str | None = None,
    ) -> list[Job]:
        """Return jobs, newest first; `after` is the id of the last one of the page before."""
        name = user.name if mine else None
        at = None if after is None else _position(self._visible.get(user, JobId(after)))
        found: list[Job] = []
        while limit is None or len(found) < limit:
            want = PAGE if limit is None else max(limit - len(found), 1)
            page = self._store.jobs(phases=phases, queue=queue, user=name, limit=want, after=at)
            found += [job for job in page if self._visible.sees(user, job.user, job.spec.queue)]
            if len(page) < want:
                break
            at = _position(page[-1])
        return found

    def every(self, at_once: int = PAGE, phases: Sequence[Phase] | None = None) -> Iterator[list[Job]]:
        """Yield all jobs on record, or all in these phases, newest first, in pages: an index within this
        server.

        Its reader checks `JobVisibility.sees` for each.
        """
        at = None
        while page := self._store.jobs(phases=phases, limit=at_once, after=at):
            yield page
            at = _position(page[-1])

    def events(
        self, user: User, *, after: int = 0, job: JobId | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return events of jobs that this user sees, ascending."""
        if job is not None:
            self._visible.get(user, job)
            return self._store.events(after=after, job=job, limit=limit)
        found: list[Event] = []
        while len(found) < limit:
            page = self._store.events(after=after, limit=limit)
            found += [event for event in page if self._visible.event(user, event)]
            if len(page) < limit:
                break
            after = page[-1].seq
        return found[:limit]

    def why(self, user: User, id_: JobId) -> Explanation:
        """Explain the state of the job; for a waiting one, the holders of what it needs and the change that
        would start it.
        """
        job = self._visible.get(user, id_)
        return replace(self._why(user, job), notes=self._remarks.of(job, self._clock()))

    def _why(self, user: User, job: Job) -> Explanation:
        id_ = job.id
        waits = job.phase is Phase.PENDING or (
            job.phase is Phase.PAUSED and job.paused_by is PauseCause.SCHEDULER
        )
        if not waits:
            return Explanation(job.phase.value, job.reason, (), "")
        with self._loop.snapshot() as snapshot:
            if snapshot.job(id_) is None:  # written a moment ago, and not received yet
                return Explanation(job.phase.value, job.reason, (), "")
            found = explain(snapshot, id_, self._clock())
        holders = tuple(
            (holder if self._visible.job(user, holder) else HIDDEN, amount)
            for holder, amount in found.holders
        )
        return replace(found, holders=holders)

    def foreseen(self, job: Job) -> Expectation | None:
        """Return the expected start and end of a job that the caller sees; None if it has ended or has no
        forecast yet.
        """
        if self._forecaster is None or job.terminal:
            return None
        return self._forecaster.of(job.id)

    def starts(self, id_: JobId) -> float | None:
        """Return the time at which a waiting job that the caller sees starts with a probability of 50%."""
        foreseen = None if self._forecaster is None else self._forecaster.of(id_)
        return None if foreseen is None else foreseen.start_p50

    def profiled_runs(self) -> dict[JobId, tuple[JobProfile, ProfiledRun]]:
        """Return the kept runs of jobs, with their profiles; the caller must check who may see them."""
        return {run.job: (profile, run) for profile in self._store.find(PROFILES) for run in profile.runs}

    def _note_events(self, written: Sequence[Written]) -> None:
        self.last_event = max([self.last_event, *(event.seq for _, event in written if event is not None)])


def _position(job: Job) -> tuple[float, JobId]:
    return job.submitted_at, job.id
