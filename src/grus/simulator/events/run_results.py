"""Records of a simulation: the results of every job, and the uses of the pool.

Facts only; `outcomes` interprets them.
"""

from dataclasses import dataclass, field

from grus.simulator.workload.job_work import TraceJob


@dataclass(frozen=True, slots=True)
class Span:
    """A job held so many GPUs from one moment to another."""

    begin: float
    end: float
    gpus: float


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Results of one job. Times are moments of the trace; amounts are GPU-seconds."""

    work: TraceJob
    started: float | None
    """First start; None if it never did."""
    ended: float | None
    """None if it was not done when nothing more could happen."""
    waited: float
    """Seconds without GPUs, the pauses by the scheduler included."""
    held: float
    useful: float
    """The part of `held` in which lasting work was done; at most the need of that work at its requested size,
    so that GPUs which speed a job up little count little.
    """
    lost: float
    """Work done and lost again, since the last checkpoint before a kill or a fault."""
    pauses: int
    resizes: int
    faults: int
    spans: tuple[Span, ...] = ()

    @property
    def completion(self) -> float | None:
        """Job completion time: from submission to the end."""
        return None if self.ended is None else self.ended - self.work.submit


@dataclass(frozen=True, slots=True)
class Moment:
    """The pool between two events: GPUs held, jobs waiting, from this time on."""

    at: float
    held: float
    waiting: int


@dataclass(frozen=True, slots=True)
class Result:
    """One simulation, complete. The same trace, pool, queues, costs and seed give an equal one."""

    jobs: tuple[JobOutcome, ...]
    begin: float
    end: float
    gpus: float
    """GPUs of the pool at the beginning."""
    offered: float
    """GPU-seconds that the healthy pool had to give from `begin` to `end`."""
    idle: float
    """GPU-seconds in which whole GPUs stood free."""
    scattered: float
    """The part of `idle` on nodes that others partly used."""
    longest_queue: int
    decides: int
    violations: tuple[str, ...] = ()
    """Sentences about hard rules that were broken; there must be none."""
    moments: tuple[Moment, ...] = field(default=(), repr=False)
