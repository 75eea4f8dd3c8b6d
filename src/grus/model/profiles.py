"""Job profiles by fingerprint: the measured memory, time, energy and speed of its jobs.

    fingerprint   same code, same command, same image, same user
    program       the same without the code: earlier versions of it

A profile is made of its last runs. Each run belongs to one job and is rewritten as the job continues, so that
nothing is counted twice, for any number of writers and writes. All values of a profile follow from its runs;
a value that was not measured is None, never zero.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median

from grus.model.activity_labels import WorkloadKind
from grus.model.execution_plans import Shortage
from grus.model.identifiers import JobId, UserName
from grus.model.jobs import Phase

MOST_RUNS = 16
"""Runs that a profile is made of; recent runs are more informative than older ones."""
MOST_SPEEDS = 64
MOST_DATA = 32
MOST_PAIRS = 32
MOST_SHORT = 64
BINS = 20
"""Number of bins of the utilization range whose time is counted separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """GPU usage of a run while it had this size. Times are seconds that were measured."""

    type: str
    """Type of the GPUs."""
    gpus: int
    """Micro-GPUs, all workers together."""
    seconds: float = 0.0
    busy: float = 0.0
    """Seconds × utilization."""
    levels: tuple[float, ...] = ()
    """Seconds at each twentieth of utilization, the lowest first; empty if it was never measured."""
    memory: int | None = None
    """Most bytes on one GPU."""
    how: tuple[str, ...] = ()
    """Execution plan of the training, if Grus chose one."""
    slice: int = 0
    """Bytes that it might have of its GPU; 0 for all of it."""

    @property
    def mean(self) -> float | None:
        """Mean utilization, 0 to 1."""
        measured = sum(self.levels)
        return self.busy / measured if measured > 0 else None

    @property
    def p95(self) -> float | None:
        """Utilization that is exceeded in a twentieth of the time, within a twentieth."""
        return _quantile(self.levels, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Seconds of a step at one size on one type of GPU, with `local` examples on each."""

    type: str
    nodes: int
    gpus: int
    """Whole GPUs."""
    local: float
    step: float

    @property
    def throughput(self) -> float:
        """Examples a second, all GPUs together; the usual batch replaces one that is not reported."""
        return self.gpus * self.local / self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Result of sharing a GPU with jobs of another fingerprint."""

    other: str
    """The fingerprint of the other."""
    gain: float
    """Work of both together in a second against what they do one after the other; above 1 it pays."""
    times: int = 1
    """Times that it was measured."""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledRun:
    """One job, as far as it has come."""

    job: JobId
    at: float
    """Time of the last write."""
    phase: Phase = Phase.RUNNING
    seconds: float = 0.0
    """Time spent running, all attempts together, pauses left out."""
    uses: tuple[GpuUsage, ...] = ()
    host_memory: int | None = None
    """Most bytes of host memory, all workers together."""
    cpu: float | None = None
    """Mean cores in use."""
    energy: float | None = None
    """Joules of its GPUs; None if power is not measured."""
    kind: WorkloadKind = WorkloadKind.UNKNOWN
    period: float | None = None
    data: str = ""
    """Digest of its training data; empty if it names none."""
    new_data: bool = False
    """True if others of its fingerprint had run before, and none of them on these data."""
    given: str = ""
    """Digest of its environment variables, as of `Shortage`."""
    code: str = ""
    """Digest of the code that it ran."""

    @property
    def peak_memory(self) -> int | None:
        """Most bytes that it had on one GPU."""
        return max((use.memory for use in self.uses if use.memory is not None), default=None)

    @property
    def mean_utilisation(self) -> float | None:
        return _whole(self.uses).mean


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProfile:
    """See the head of this file. Runs are in the order in which their jobs began."""

    fingerprint: str
    program: str = ""
    name: str = ""
    """Name of the last job."""
    user: UserName | None = None
    command: str = ""
    """Command, for people."""
    image: str = ""
    count: int = 0
    """Number of jobs of this fingerprint that ran at all, including those whose runs are no longer stored."""
    runs: tuple[ProfiledRun, ...] = ()
    speeds: tuple[Speed, ...] = ()
    stall: float | None = None
    """Seconds for which the remaining workers stood still when the size changed."""
    boot: float | None = None
    """Seconds until new workers did work."""
    data: tuple[str, ...] = ()
    """Digests of what its jobs were trained on, the newest last."""
    pairs: tuple[Pair, ...] = ()
    short: tuple[Shortage, ...] = ()
    """Out-of-memory (OOM) shortages: for each number of GPUs and
    execution plan the most memory with which a job ended out of memory.
    """
    updated_at: float = 0.0

    @property
    def peak_memory(self) -> int | None:
        """Most bytes that a job of it had on one GPU."""
        return max((use.memory for use in self.uses if use.memory is not None), default=None)

    @property
    def host_memory(self) -> int | None:
        """Most bytes of host memory that a job of it had."""
        return max((run.host_memory for run in self.runs if run.host_memory is not None), default=None)

    @property
    def uses(self) -> tuple[GpuUsage, ...]:
        """GPU usage at each type and size, all runs together."""
        return merged(use for run in self.runs for use in run.uses)

    @property
    def mean_utilisation(self) -> float | None:
        return _whole(self.uses).mean

    @property
    def p95_utilisation(self) -> float | None:
        return _whole(self.uses).p95

    @property
    def period(self) -> float | None:
        """Seconds of an epoch, as last recognized."""
        return next((run.period for run in reversed(self.runs) if run.period is not None), None)

    @property
    def kind(self) -> WorkloadKind:
        """Kind of job, as last recognized."""
        known = (run.kind for run in reversed(self.runs) if run.kind is not WorkloadKind.UNKNOWN)
        return next(known, WorkloadKind.UNKNOWN)

    @property
    def durations(self) -> tuple[float, ...]:
        """Seconds of the runs that succeeded."""
        return tuple(run.seconds for run in self.runs if run.phase is Phase.SUCCEEDED)

    @property
    def duration(self) -> float | None:
        """Seconds that a job of it usually runs: the median of those that succeeded."""
        return median(self.durations) if self.durations else None

    @property
    def energy(self) -> float | None:
        """Joules that a job of it usually takes: the mean of those that succeeded."""
        done = [run.energy for run in self.runs if run.phase is Phase.SUCCEEDED and run.energy is not None]
        return fmean(done) if done else None

    def is_new(self, data: str) -> bool:
        """Return whether jobs of it have run on data, and none of them on these."""
        return bool(data) and bool(self.data) and data not in self.data

    def run(self, job: JobId) -> ProfiledRun | None:
        return next((run for run in self.runs if run.job == job), None)

    def pair(self, other: str) -> Pair | None:
        return next((pair for pair in self.pairs if pair.other == other), None)


def merged(uses: Iterable[GpuUsage]) -> tuple[GpuUsage, ...]:
    """Return merged usage: one for each type, size and execution plan."""
    found: dict[tuple[str, int, tuple[str, ...]], GpuUsage] = {}
    for use in uses:
        key = (use.type, use.gpus, use.how)
        found[key] = both(found[key], use) if key in found else use
    return tuple(found[key] for key in sorted(found))


def both(one: GpuUsage, other: GpuUsage) -> GpuUsage:
    """The two together, under the type and size of the first."""
    known = [memory for memory in (one.memory, other.memory) if memory is not None]
    levels = (
        tuple(a + b for a, b in zip(one.levels, other.levels, strict=True))
        if one.levels and other.levels
        else one.levels or other.levels
    )
    return GpuUsage(
        type=one.type,
        gpus=one.gpus,
        seconds=one.seconds + other.seconds,
        busy=one.busy + other.busy,
        levels=levels,
        memory=max(known, default=None),
        how=one.how,
        slice=max(one.slice, other.slice),
    )


def _whole(uses: Iterable[GpuUsage]) -> GpuUsage:
    whole = GpuUsage(type="", gpus=0)
    for use in uses:
        whole = both(whole, use)
    return whole


def _quantile(levels: tuple[float, ...], part: float) -> float | None:
    """Return the quantile of that part of the time, interpolated between the edges of its level."""
    left = part * sum(levels)
    if left <= 0:
        return None
    for number, seconds in enumerate(levels):
        if seconds > 0 and seconds >= left - math.ulp(left):
            return (number + left / seconds) / len(levels)
        left -= seconds
    return 1.0
