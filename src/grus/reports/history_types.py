"""The past as reports see it: values only, gathered by `data_collection` with one user's permissions.

A job's life is a row of spans without gaps, from its submission on: in each, its phase, its attempt and its
allocation do not change. Spans come from the events of the job, so they are as exact as its record is.
Measurements come beside them, on the even grids of the recorder. A value that is not measured is None, never
zero. Amounts are in GPUs, times in seconds, moments in Unix seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grus.model.identifiers import JobId
from grus.model.interfaces import Event
from grus.model.jobs import HOLDING, Job, Phase
from grus.model.metrics_history import Curves
from grus.model.nodes import Node
from grus.model.prices import NO_PRICES, Prices
from grus.model.profiles import ProfiledRun, Speed
from grus.model.queues import Queue
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Series

NO_CURVES = Curves()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which a job was in one phase and attempt, and held the same."""

    start: float
    end: float
    phase: Phase
    attempt: int
    gpus: float
    """GPUs that it held."""
    began: str
    """The kind of the event that began it: submitted, starting, running, resized, released, …"""
    waits: bool = False
    """True if it would have started if there had been free GPUs: False while it waited for other jobs, and
    while a person, or the idle policy, had paused it.
    """

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def holding(self) -> bool:
        return self.phase in HOLDING

    @property
    def gpu_seconds(self) -> float:
        return self.seconds * self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPast:
    """One job, as far as it has come by the end of what is looked at."""

    job: Job
    spans: tuple[Span, ...]
    """Its whole life up to then, also before what is looked at, in order."""
    events: tuple[Event, ...] = ()
    """Events in order; those that are no longer kept are missing."""
    asked: float = 0.0
    """The fewest GPUs with which it can run; a slice by memory counts as half of one."""
    most: float = 0.0
    """The most that it can use."""
    curves: Curves = NO_CURVES
    run: ProfiledRun | None = None
    """Measurements of it over its whole life; None if they are no longer kept."""
    fingerprint: str = ""
    """Empty where no profile of it is kept."""
    speeds: tuple[Speed, ...] = ()
    """Speeds of all jobs of its fingerprint."""
    stall: float | None = None
    """Seconds for which those who stay stood still when the size changed, of all jobs of its fingerprint."""
    boot: float | None = None
    """Seconds until new workers did work, likewise."""
    utilisation: Series | None = None
    """0 to 1 of what it held, mean of its workers; None where nothing is recorded of them."""

    @property
    def id(self) -> JobId:
        return self.job.id

    @property
    def held(self) -> tuple[Span, ...]:
        """The spans in which it held GPUs."""
        return tuple(span for span in self.spans if span.gpus > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHistory:
    """Events between two moments, as far as one user may see them."""

    since: float
    until: float
    jobs: tuple[JobPast, ...]
    """Those that were there at any time between the two, in the order in which they were submitted."""
    whole: bool = True
    """True if these are all jobs that there were; False if the user may not see those of others, or if the
    scope has only some of them.
    """
    nodes: tuple[Node, ...] = ()
    """The pool as it is now."""
    queues: tuple[Queue, ...] = ()
    pool: Mapping[Measure, Series] = field(default_factory=dict)
    """`held`, `demand`, `capacity`, `stranded` (in GPUs) and `utilisation` (0 to 1) of all GPUs, as counted
    each minute; those without records are missing.
    """
    types: Mapping[JobId, str] = field(default_factory=dict)
    """The type of the GPUs that each job ran on; missing for a mixture, or if it is unknown."""
    prices: Prices = NO_PRICES
    notes: tuple[str, ...] = ()
    """Unknown facts, and the reasons: sentences."""

    @property
    def seconds(self) -> float:
        return self.until - self.since

    @property
    def gpus(self) -> int:
        """GPUs of the pool as it is now that may be used."""
        return sum(device.usable for node in self.nodes for device in node.devices)

    def within(self, span: Span) -> float:
        """Seconds of a span that lie in what is looked at."""
        return max(0.0, min(span.end, self.until) - max(span.start, self.since))
