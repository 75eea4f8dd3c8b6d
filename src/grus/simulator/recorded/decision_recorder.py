"""Recording of a live scheduler's inputs and answers, so that they can be replayed.

The store keeps the results of jobs, not the scheduler's knowledge at the moment of a decision. So a server
with recording enabled writes down every fact that its snapshot was given, in the order in which it was given,
and every decision that followed. One JSON object per line:

    {"begin": {"form": 1, "policy": "grus"}}     a control plane has taken over with an empty state
    {"pool": {"nodes": [...], "queues": [...], "user_limits": {}}}  all of the pool
    {"put": {"job": {...}, "blocked": ""}}       the current state of a job
    {"expect": {"job": ..., "outlook": {...}}}   its expected speed at other sizes
    {"note": {"job": ..., "tag": {...}}}         its recognized activity, from its telemetry
    {"gauge": {"job": ..., "footprint": {...}}}  its use of a GPU that it may share
    {"decide": {"now": ..., "actions": [...], "wake_at": ...}}
    {"full": {"bytes": ...}}                     the record ends here because it is long enough

The commands of jobs and their environment are no input of a decision and are left out: a record may be shown
to others.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import msgspec

from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, UserName
from grus.model.jobs import Job, Seat
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.scheduler.decisions import Decision, Decisions, Pause, Requeue, Resize, Share, Start
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.queues.policies import GRUS, Policy
from grus.scheduler.state.gpu_footprint import Footprint
from grus.scheduler.state.snapshot import Snapshot

FORM = 1
MOST_BYTES = 256 << 20
"""A record that is longer ends with the line `full`; the server continues."""
LEFT_OUT = ("left-out",)

Decide = Callable[[Snapshot, float], Decisions]
Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Begin:
    form: int
    policy: str = GRUS.name


@dataclass(frozen=True, slots=True)
class PoolLine:
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    user_limits: dict[UserName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Put:
    job: Job
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class Expect:
    job: JobId
    outlook: Outlook | None = None


@dataclass(frozen=True, slots=True)
class Note:
    job: JobId
    tag: Tag | None = None


@dataclass(frozen=True, slots=True)
class Gauge:
    job: JobId
    footprint: Footprint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A decision of any kind, flat."""

    does: str
    job: JobId
    reason: str
    seats: tuple[Seat, ...] = ()
    preemptor: JobId | None = None
    backfill_until: float | None = None
    guest_of: JobId | None = None
    share: int = 0


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """The scheduler was asked at this moment and answered this."""

    now: float
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Full:
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLine:
    """One line of a record: one of these."""

    begin: Begin | None = None
    pool: PoolLine | None = None
    put: Put | None = None
    expect: Expect | None = None
    note: Note | None = None
    gauge: Gauge | None = None
    decide: RecordedDecision | None = None
    full: Full | None = None


class Recording:
    """Writes one life of a control plane. `write` is given whole lines; what it raises ends the recording."""

    def __init__(self, write: Write, *, most: int = MOST_BYTES, on_end: Callable[[str], None]) -> None:
        self._write: Write | None = write
        self._left = most
        self._most = most
        self._on_end = on_end
        self._encoder = msgspec.json.Encoder()

    def line(self, name: str, value: object) -> None:
        """Write it down, unless the recording has ended."""
        if self._write is None:
            return
        text = b'{"%s":%s}\n' % (name.encode(), self._encoder.encode(value))
        self._left -= len(text)
        try:
            if self._left >= 0:
                self._write(text)
                return
            self._write(b'{"full":%s}\n' % self._encoder.encode(Full(self._most)))
            self._end(f"it has {self._most} bytes")
        except OSError as error:
            self._end(str(error))

    def _end(self, why: str) -> None:
        self._write = None
        self._on_end(why)

    def snapshot(self, policy: Policy = GRUS) -> Snapshot:
        """An empty snapshot whose every change is written down."""
        self.line("begin", Begin(FORM, policy.name))
        return RecordingSnapshot(self, policy)

    def of(self, decide: Decide) -> Decide:
        """The same decisions, written down."""

        def recorded(snapshot: Snapshot, now: float) -> Decisions:
            decisions = decide(snapshot, now)
            self.line("decide", RecordedDecision(now, tuple(map(flat, decisions.actions)), decisions.wake_at))
            return decisions

        return recorded


class RecordingSnapshot(Snapshot):
    """A snapshot that records its inputs."""

    def __init__(self, recording: Recording, policy: Policy) -> None:
        self._recording = recording
        self._known = False
        """Jobs are being put in again that are on record already."""
        super().__init__(policy=policy)

    def _rebuild(self) -> None:
        self._recording.line("pool", PoolLine(self.nodes, self.queue_list, self.user_limits))
        with self._nothing_new():
            super()._rebuild()

    def expect(self, job: JobId, outlook: Outlook | None) -> None:
        self._recording.line("expect", Expect(job, outlook))
        with self._nothing_new():
            super().expect(job, outlook)

    def note(self, job: JobId, tag: Tag | None) -> None:
        self._recording.line("note", Note(job, tag))
        super().note(job, tag)

    def gauge(self, job: JobId, footprint: Footprint | None) -> None:
        self._recording.line("gauge", Gauge(job, footprint))
        super().gauge(job, footprint)

    def put(self, job: Job, blocked: str = "") -> None:
        if not self._known:
            self._recording.line("put", Put(shown(job), blocked))
        super().put(job, blocked)

    @contextmanager
    def _nothing_new(self) -> Iterator[None]:
        self._known = True
        try:
            yield
        finally:
            self._known = False


def shown(job: Job) -> Job:
    """The job without what it runs and what it sees: no decision depends on these."""
    spec = replace(job.spec, run=LEFT_OUT, setup=(), env=(), workdir="")
    return replace(job, spec=spec, exit=None, sizing=None)


def flat(action: Decision) -> Action:
    match action:
        case Start(job, seats, reason, until, host):
            return Action(
                does="start", job=job, reason=reason, seats=seats, backfill_until=until, guest_of=host
            )
        case Pause(job, reason, preemptor):
            return Action(does="pause", job=job, reason=reason, preemptor=preemptor)
        case Resize(job, seats, reason, preemptor):
            return Action(does="resize", job=job, reason=reason, seats=seats, preemptor=preemptor)
        case Share(job, share, reason):
            return Action(does="share", job=job, reason=reason, share=share)
        case Requeue(job, reason):
            return Action(does="requeue", job=job, reason=reason)


def lines(text: Iterable[bytes]) -> Iterable[tuple[int, RecordingLine]]:
    """The lines of a record with their numbers; blank ones are passed over. Raises msgspec's errors."""
    decoder = msgspec.json.Decoder(RecordingLine)
    for number, line in enumerate(text, 1):
        if line.strip():
            yield number, decoder.decode(line)
