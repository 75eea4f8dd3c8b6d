"""Consistency check of the record against the event log and against itself. Rebuilds the state from the
events and reports each difference. Pure.

The log may have lost its oldest events to retention, and events may have outlived their jobs: what cannot be
known is not checked.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grus.controlplane import cluster_view
from grus.controlplane.jobs.lifecycle import working
from grus.model.identifiers import JobId
from grus.model.integrity_findings import Finding
from grus.model.interfaces import Event
from grus.model.jobs import HOLDING, NEXT, TERMINAL, Job, Phase
from grus.model.phases import phase_after
from grus.model.queues import DEFAULT_QUEUE, Queue, check_tree, gpus
from grus.model.resources import GPU
from grus.model.results import Result
from grus.model.texts.plural_words import counted

RESTORE = "bring back the last backup (`grus restore`), or `grus stop` the job once a server runs"


@dataclass(slots=True)
class LoggedJob:
    """State of one job as the log records it."""

    events: int = 0
    last: int = 0
    """Number of its last event."""
    whole: bool = False
    """True if its first event is still there."""
    phase: Phase | None = None
    attempt: int = 0
    generation: int = 0
    held: int | None = None
    working: int | None = None
    lost: int | None = None


class EventLog:
    """All events, taken in one after the other."""

    def __init__(self) -> None:
        self.jobs: defaultdict[JobId, LoggedJob] = defaultdict(LoggedJob)
        self.findings: list[Finding] = []
        self.events = 0
        self.oldest: float | None = None
        """Time of the oldest event that is kept."""

    def take(self, event: Event) -> None:
        self.events += 1
        self.oldest = event.at if self.oldest is None else min(self.oldest, event.at)
        if event.job is None:
            return
        told = self.jobs[event.job]
        self._judge(event, told)
        told.events, told.last = told.events + 1, event.seq
        told.whole = told.whole or event.kind == "submitted"
        told.phase = phase_after(event.kind, told.phase)
        if event.held is not None:  # written by the control plane, with all its dependent rows
            told.attempt, told.generation = event.attempt, event.generation
            told.held, told.working, told.lost = event.held, event.working, event.lost

    def _judge(self, event: Event, told: LoggedJob) -> None:
        after = phase_after(event.kind, told.phase)
        if told.phase is not None and after != told.phase and after not in NEXT[told.phase]:
            self._find(event, f"it is {event.kind} at event {event.seq}, though it was {told.phase}")
        if event.held is not None and event.attempt < told.attempt:
            self._find(event, f"event {event.seq} is of attempt {event.attempt}, after one of {told.attempt}")

    def _find(self, event: Event, text: str) -> None:
        self.findings.append(Finding(check="log", which=str(event.job), text=text, fix=RESTORE))


@dataclass(frozen=True, slots=True)
class _JobEnd:
    phase: Phase
    ended_at: float | None


class Consistency:
    """Takes jobs, then results and keys; `over` returns the findings that are known only at the end."""

    def __init__(self, log: EventLog, queues: Iterable[Queue]) -> None:
        self._log = log
        self._queues = {queue.name: queue for queue in queues}
        self._seen: set[JobId] = set()
        self._owners: dict[JobId, str] = {}
        self._holding: list[Job] = []
        self._ended: dict[JobId, _JobEnd] = {}
        self._kept: set[JobId] = set()
        self.findings: list[Finding] = list(log.findings)

    @property
    def jobs(self) -> int:
        return len(self._seen)

    def take_job(self, job: Job) -> None:
        self._seen.add(job.id)
        self._owners[job.id] = job.user
        if job.seats:
            self._holding.append(job)
        if job.terminal:
            self._ended[job.id] = _JobEnd(job.phase, job.ended_at)
        self.findings += [*self._alone(job), *against(job, self._log)]

    def take_result(self, result: Result) -> None:
        self._kept.add(result.job)
        if result.job not in self._seen:
            return  # results outlast their jobs
        end = self._ended.get(result.job)
        if end is None:
            self._find("results", result.job, "a result is kept of it, but it has not ended")
        elif (end.phase, end.ended_at) != (result.phase, result.ended_at):
            text = f"its result says {result.phase} at {result.ended_at}"
            text += f", its record {end.phase} at {end.ended_at}"
            self._find("results", result.job, text)

    def take_key(self, user: str, key: str, job: str) -> None:
        owner = self._owners.get(JobId(job))
        if owner is not None and owner != user:
            self._find("keys", job, f"the key {key!r} of {user} stands for a job of {owner}")

    def over(self) -> list[Finding]:
        """Return all findings."""
        self.findings += [*self._devices(), *self._tree(), *self._vanished(), *self._without_result()]
        return self.findings

    def _alone(self, job: Job) -> Iterator[Finding]:
        """Yield contradictions within a job's record, and between the record and the queues."""
        if job.seats and job.phase not in HOLDING:
            yield _finding(
                "held", job.id, f"it is {job.phase} and still holds {counted(gpus(job.held), 'GPU')}"
            )
        if job.terminal != (job.ended_at is not None):
            yield _finding("phase", job.id, f"it is {job.phase}, and its end is at {job.ended_at}")
        if not job.terminal and job.spec.queue not in self._queues and job.spec.queue != DEFAULT_QUEUE:
            fix = f"`grus queue set {job.spec.queue}` makes it again"
            text = f"its queue {job.spec.queue} is not on record"
            yield Finding(check="queues", which=job.id, text=text, fix=fix)

    def _devices(self) -> Iterator[Finding]:
        """Check S1: the allocations of a device never exceed it."""
        for device, held in cluster_view.usage(self._holding).items():
            if held > GPU:
                whose = [job.id for job in self._holding if any(device in seat.devices for seat in job.seats)]
                text = f"{counted(gpus(held), 'GPU')} of it held, by {', '.join(sorted(whose))}"
                fix = "`grus stop` all but one of these jobs once a server runs"
                yield Finding(check="devices", which=device, text=text, fix=fix)

    def _tree(self) -> Iterator[Finding]:
        queues = [queue for name, queue in self._queues.items() if name != DEFAULT_QUEUE]
        for mistake in check_tree(queues, None):
            which = mistake.field.removeprefix("queues.").partition(".")[0]
            yield Finding(
                check="queues", which=which, text=str(mistake), fix="`grus queue set` with other numbers"
            )

    def _vanished(self) -> Iterator[Finding]:
        for id_, told in self._log.jobs.items():
            if id_ not in self._seen and told.phase is not None and told.phase not in TERMINAL:
                text = f"the log says that it is {told.phase} (event {told.last}), but it is not on record"
                fix = "bring back the last backup (`grus restore`), or submit it again"
                yield Finding(check="jobs", which=id_, text=text, fix=fix)

    def _without_result(self) -> Iterator[Finding]:
        missing = sorted(self._ended.keys() - self._kept)
        if missing:
            text = f"without a result yet: {counted(len(missing), 'ended job')}, such as {missing[0]}"
            fix = "none needed: a running server makes them within ten minutes"
            yield Finding(check="results", which=missing[0], text=text, fix=fix, grave=False)

    def _find(self, check: str, which: str, text: str) -> None:
        self.findings.append(_finding(check, which, text))


def against(job: Job, log: EventLog) -> Iterator[Finding]:
    """Yield the differences between a job's record and the log."""
    told = log.jobs.get(job.id)
    if told is None or not told.whole:
        # A job submitted after the oldest kept event has its own first event there too.
        if log.oldest is None or job.submitted_at >= log.oldest:
            yield _finding("log", job.id, "its first events are not in the log, though older ones are")
        if told is None:
            return
    if told.phase is not None and told.phase != job.phase:
        yield _differs("phase", job, told, str(job.phase), str(told.phase))
    if told.events > job.version:
        times, events = counted(job.version, "time"), counted(told.events, "event")
        text = f"it was written {times}, but has {events}: a later record is lost"
        yield _finding("log", job.id, text)
    if told.held is None:
        return
    if told.held != job.held:
        yield _differs("held", job, told, f"{counted(gpus(job.held), 'GPU')} held", f"{gpus(told.held)}")
    for name, mine, theirs in (
        ("attempt", job.attempt, told.attempt),
        ("generation", job.generation, told.generation),
        ("lost", job.lost, told.lost),
        ("working", working(job), told.working),
    ):
        if theirs is not None and mine != theirs:
            yield _differs(name, job, told, f"{name} {mine}", str(theirs))


def _differs(check: str, job: Job, told: LoggedJob, mine: str, theirs: str) -> Finding:
    return _finding(check, job.id, f"its record says {mine}, its last event ({told.last}) {theirs}")


def _finding(check: str, which: str, text: str) -> Finding:
    return Finding(check=check, which=which, text=text, fix=RESTORE)
