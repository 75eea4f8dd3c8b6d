"""Data of a job's page, gathered from the services. Every call has the rights of the viewer."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from grus.controlplane.facade.job_reader import HIDDEN
from grus.controlplane.facade.services import Services
from grus.controlplane.monitoring.series_query import Readings, Whose, combined
from grus.controlplane.monitoring.trend_forecast import Reach
from grus.dashboard.views import job_charts
from grus.dashboard.views.job_charts import ChartLine, Figure
from grus.dashboard.views.job_detail import JobPageData
from grus.dashboard.views.job_timeline import attempts, strip
from grus.model.activity_labels import Tag, of_job
from grus.model.errors import Conflict, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import Event, User
from grus.model.jobs import Job
from grus.model.nodes import Node
from grus.model.resources import GPU
from grus.model.run_prediction import Expected
from grus.patterns.demand_forecast import Forecast, Nothing
from grus.scheduler.explain import Explanation
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Series

PAGE = 1000
MOST_EVENTS = 20_000
"""Events that are looked through; of a longer life the first ones."""
MOST_LOGS = 64
"""Workers of a job that has ended whose logs are offered."""
SHORTEST_REST = 1.0
"""Seconds between two explanations of a job that has not changed itself."""
REST = 40.0
"""Rest after an explanation, as a multiple of the time that the explanation took."""
POINTS = 480
"""Number of points of a line in a chart: as many as there are pixels to distinguish them."""


@dataclass(slots=True)
class JobView:
    """One visitor's look at a job, kept for as long as the page is open: what was read is not read again."""

    does: Services
    user: User
    id: JobId
    events: list[Event] = field(default_factory=list)
    expected: Expected | None = None
    clock: Callable[[], float] = time.monotonic
    _why: tuple[int, Explanation] | None = None
    """The version of the job that was explained last, and how."""
    _why_again: float = 0.0
    """Time from which it may be explained again although the job is unchanged."""

    def learn(self) -> "JobView":
        """Reads what its like did before, which may take its time: a page does not wait for it.

        Raises NotFound for a job that is not there, or not for this user.
        """
        job = self.does.visible.get(self.user, self.id)
        with suppress(NotFound):  # a server that keeps no profiles
            self.expected = self.does.insight.of(job).expected
        return self

    def now(self, now: float) -> JobPageData:
        """All that there is to see at this moment; new events are added to `events`."""
        job = self.does.visible.get(self.user, self.id)
        self.read_events()
        life = strip(self.events, now)
        why = self._explained(job)
        return JobPageData(
            job=job,
            user=self.user,
            now=now,
            why=why,
            life=life,
            attempts=attempts(life, self.events),
            foreseen=self.does.jobs.foreseen(job),
            tag=_tag(self.does, job),
            expected=self.expected,
            workers=self.does.outputs.workers(self.user, self.id),
            use=self.does.telemetry.of_workers(self.user, self.id) if self.does.watched else None,
            names={holder: self._name(holder) for holder, _ in why.holders if holder != HIDDEN},
            logs=self._logs(job),
        )

    def _explained(self, job: Job) -> Explanation:
        """Return the explanation of its state.

        The explanation takes the scheduler's time: the next one comes only after a rest that is much longer.
        """
        began = self.clock()
        if self._why is None or self._why[0] != job.version or began >= self._why_again:
            self._why = job.version, self.does.jobs.why(self.user, self.id)
            ended = self.clock()
            self._why_again = ended + max(SHORTEST_REST, REST * (ended - began))
        return self._why[1]

    def read_events(self) -> None:
        while len(self.events) < MOST_EVENTS:
            after = self.events[-1].seq if self.events else 0
            page = self.does.jobs.events(self.user, after=after, job=self.id, limit=PAGE)
            self.events += page
            if len(page) < PAGE:
                return

    def _name(self, id_: JobId) -> str:
        try:
            return self.does.visible.get(self.user, id_).spec.name
        except NotFound:
            return ""

    def _logs(self, job: Job) -> int:
        """Return the number of logs: the members' of a running job, the remaining ones of an ended job."""
        if job.seats or not job.attempt:
            return 0
        for number in range(MOST_LOGS):
            try:
                self.does.outputs.log(self.user, self.id, number, 0, 1)
            except NotFound:
                return number
        return MOST_LOGS


# -------------------------------------------------------------------------------------------------- charts


def charts(does: Services, user: User, id_: JobId, now: float, back: float | None) -> dict[str, Figure]:
    """Every chart by its name; `back` is how many seconds are shown, None for all of its life."""
    look = JobView(does, user, id_)
    job = does.visible.get(user, id_)
    look.read_events()
    reported = does.outputs.curves(user, id_)
    life = strip(look.events, now)
    return {
        **_measured(does, user, job, now, back),
        "loss": job_charts.loss(reported),
        "throughput": job_charts.throughput(reported, life),
        "others": job_charts.others(reported),
    }


def _measured(does: Services, user: User, job: Job, now: float, back: float | None) -> dict[str, Figure]:
    if not does.watched or job.first_started_at is None:
        why = "It has not run yet." if does.watched else "This server records no telemetry."
        return {name: job_charts.missing(why) for name in ("use", "memory", "power")}
    past = _ChartWindow.of(does.telemetry, user, job, now, back)
    use = past.of_job(Measure.UTILISATION) or past.of_gpus(Measure.UTILISATION)
    memory = [
        ("GPU", past.of_job(Measure.MEMORY) or past.of_gpus(Measure.MEMORY), "--chart-1"),
        ("host", past.of_job(Measure.HOST_MEMORY), "--chart-2"),
    ]
    ahead = _ahead(does, user, job)
    return {
        "use": {**job_charts.use(use, _tag(does, job), ahead), "note": job_charts.forecast_words(ahead)},
        "memory": job_charts.memory(
            [ChartLine(name, series, colour) for name, series, colour in memory if series is not None],
            _room(job, does.pool.nodes(user)),
        ),
        "power": job_charts.power(past.of_gpus(Measure.POWER)),
    }


@dataclass(frozen=True, slots=True)
class _ChartWindow:
    """The stretch of time that is shown."""

    readings: Readings
    user: User
    job: Job
    until: float
    back: float
    step: float

    @classmethod
    def of(cls, readings: Readings, user: User, job: Job, now: float, back: float | None) -> "_ChartWindow":
        until = job.ended_at or now
        life = max(1.0, until - (job.first_started_at or job.submitted_at))
        shown = life if back is None else min(life, back)
        step = max(readings.finest(until - shown), float(round(shown / POINTS)))
        return cls(readings, user, job, until, shown, step)

    def of_job(self, measure: Measure) -> Series | None:
        return self._read(Whose.JOB, self.job.id, measure)

    def of_gpus(self, measure: Measure) -> Series | None:
        """Return the measurements of the GPUs that it has to itself now.

        Measurements of a shared GPU cannot be attributed to one job.
        """
        devices = [device for seat in self.job.seats if seat.share == GPU for device in seat.devices]
        found = [one for device in devices if (one := self._read(Whose.GPU, device, measure)) is not None]
        return combined(found, measure) if found else None

    def _read(self, whose: Whose, name: str, measure: Measure) -> Series | None:
        try:
            found = self.readings.series(
                self.user, whose, name, measure, back=self.back, until=self.until, step=self.step
            )
        except NotFound:
            return None
        return found if job_charts.known(found) else None


def _ahead(does: Services, user: User, job: Job) -> Forecast | Nothing | None:
    try:
        return does.prospects.of(user, Whose.JOB, job.id, Reach.HOUR, Measure.UTILISATION).found
    except (Conflict, NotFound):  # it has ended, or nothing is recorded of it
        return None


def _tag(does: Services, job: Job) -> Tag | None:
    return does.pool.tags().get(of_job(job.id))


def _room(job: Job, nodes: Sequence[Node]) -> float | None:
    """Bytes of GPU memory that it may use: its share of each of its devices."""
    memory = {device.id: device.memory for node in nodes for device in node.devices}
    found = [memory.get(device, 0) * seat.share / GPU for seat in job.staying for device in seat.devices]
    return sum(found) or None
