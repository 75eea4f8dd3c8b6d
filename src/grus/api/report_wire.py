"""Reports on the wire. Hours are GPU-hours, times RFC 3339, lengths of time seconds; null is not known.

What each figure means is said where it is worked out, in `grus.reports`, and in docs/reports.md.
"""

from collections.abc import Sequence

from grus.api.out import Out
from grus.api.scaling_wire import ElasticityOut, ScalabilityOut, SplitOut


class HeldOut(Out):
    """What became of GPU-hours that jobs held."""

    allocated: float
    measured: float
    busy: float | None = None
    useful: float | None = None
    idle: float | None = None
    over_asking: float | None = None
    restarted: float = 0.0
    failed: float = 0.0
    utilisation: float | None = None
    """Busy of measured, 0 to 1."""


class HoursOut(Out):
    """A time, and what became of all GPU-hours in it."""

    since: str
    until: str
    capacity: float
    held: HeldOut
    demand: float
    waiting: float | None = None
    fragmentation: float | None = None
    unwanted: float | None = None


class QueueHoursOut(Out):
    name: str
    jobs: int
    held: HeldOut
    waited: float


class TargetOut(Out):
    """When a job met the target that was asked for."""

    at: str
    since_submitted: float
    since_started: float
    gpu_hours: float


class JobReportOut(Out):
    """One job's part."""

    id: str
    name: str
    queue: str
    user: str
    phase: str
    submitted_at: str
    attempts: int = 0
    gpu_type: str = ""
    ran: float = 0.0
    waited: float = 0.0
    held: HeldOut
    steps: float | None = None
    samples: float | None = None
    unit: str = ""
    """Of what outputs are counted: samples, or steps where the batch is not told."""
    per_gpu_hour: float | None = None
    per_kwh: float | None = None
    per_cost: float | None = None
    energy_kwh: float | None = None
    cost: float | None = None
    target: TargetOut | None = None


class ReportOut(Out):
    """The whole."""

    since: str
    until: str
    gpus: int
    """Of the pool as it is now."""
    whole: bool
    """Whether it is of all jobs that there were."""
    currency: str = ""
    hours: HoursOut
    timeline: Sequence[HoursOut] = ()
    queues: Sequence[QueueHoursOut] = ()
    jobs: Sequence[JobReportOut] = ()
    """Those that held most first; no more than asked for."""
    jobs_in_all: int = 0
    target: str = ""
    energy_kwh: float | None = None
    """Of the jobs of which it is known."""
    cost: float | None = None
    notes: Sequence[str] = ()
    """What could not be known, and why."""
    scalability: ScalabilityOut | None = None
    elasticity: ElasticityOut | None = None
    static: SplitOut | None = None
    """Only where it was asked for: it has to be simulated."""
