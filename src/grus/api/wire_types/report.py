"""Wire models of reports. Hours are GPU-hours, times RFC 3339, lengths of time seconds; null is not known.

The meaning of each value is described at its computation, in `grus.reports`, and in docs/reports.md.
"""

from collections.abc import Sequence

from grus.api.scaling_wire import ElasticityOut, ScalabilityOut, SplitOut, SplitSideOut
from grus.api.wire_types.base import Out


class HeldOut(Out):
    """Use of the GPU-hours that jobs held."""

    allocated: float
    measured: float
    busy: float | None = None
    useful: float | None = None
    idle: float | None = None
    over_asking: float | None = None
    restarted: float = 0.0
    failed: float = 0.0
    utilisation: float | None = None
    """Busy part of the measured time, 0 to 1."""


class HoursOut(Out):
    """Period, and the use of all GPU-hours in it."""

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
    """Time at which a job met the requested target."""

    at: str
    since_submitted: float
    since_started: float
    gpu_hours: float


class JobReportOut(Out):
    """Use of GPU-hours by one job."""

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
    """Unit of outputs: samples, or steps if the batch size is not reported."""
    per_gpu_hour: float | None = None
    per_kwh: float | None = None
    per_cost: float | None = None
    energy_kwh: float | None = None
    cost: float | None = None
    target: TargetOut | None = None


class ReportOut(Out):
    """Report on the use of GPU-hours."""

    since: str
    until: str
    gpus: int
    """GPUs of the pool as it is now."""
    whole: bool
    """True if it covers all jobs that there were."""
    currency: str = ""
    hours: HoursOut
    timeline: Sequence[HoursOut] = ()
    queues: Sequence[QueueHoursOut] = ()
    jobs: Sequence[JobReportOut] = ()
    """Jobs with the largest allocations first; no more than requested."""
    jobs_in_all: int = 0
    target: str = ""
    energy_kwh: float | None = None
    """Energy of the jobs for which it is known."""
    cost: float | None = None
    notes: Sequence[str] = ()
    """Unavailable values, and the reasons."""
    scalability: ScalabilityOut | None = None
    elasticity: ElasticityOut | None = None
    completion: SplitSideOut | None = None
    """Completion and waiting of the jobs that were submitted and ended in this time; null without any."""
    static: SplitOut | None = None
    """Simulated static partition; only on request, because it must be simulated."""
