"""Wire models of reports. Hours are GPU-hours, times RFC 3339, lengths of time seconds; null is not known.

The meaning of each value is described at its computation, in `grus.reports`, and in docs/reports.md.
"""

from collections.abc import Sequence
from typing import Annotated

from grus.api.scaling_wire import ElasticityOut, ScalabilityOut, SplitOut, SplitSideOut
from grus.api.wire_types.base import Convert, Derived, Out, Source, Timestamp


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

    since: Timestamp
    until: Timestamp
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

    at: Timestamp
    since_submitted: float
    since_started: float
    gpu_hours: float


class JobReportOut(Out):
    """Use of GPU-hours by one job."""

    id: Annotated[str, Source("hours.past.job.id")]
    name: Annotated[str, Source("hours.past.job.spec.name")]
    queue: Annotated[str, Source("hours.past.job.spec.queue")]
    user: Annotated[str, Source("hours.past.job.user")]
    phase: Annotated[str, Source("hours.past.job.phase")]
    submitted_at: Annotated[Timestamp, Source("hours.past.job.submitted_at")]
    attempts: Annotated[int, Source("hours.past.job.attempt")] = 0
    gpu_type: str = ""
    ran: Annotated[float, Source("hours.ran")] = 0.0
    waited: Annotated[float, Source("hours.waited")] = 0.0
    held: Annotated[HeldOut, Source("hours.held")]
    steps: Annotated[float | None, Source("efficiency.steps")] = None
    samples: Annotated[float | None, Source("efficiency.samples")] = None
    unit: Annotated[str, Source("efficiency.unit")] = ""
    """Unit of outputs: samples, or steps if the batch size is not reported."""
    per_gpu_hour: Annotated[float | None, Source("efficiency.per_gpu_hour")] = None
    per_kwh: Annotated[float | None, Source("efficiency.per_kwh")] = None
    per_cost: Annotated[float | None, Source("efficiency.per_cost")] = None
    energy_kwh: Annotated[float | None, Source("efficiency.energy")] = None
    cost: Annotated[float | None, Source("efficiency.cost")] = None
    target: Annotated[TargetOut | None, Source("efficiency.target")] = None


class ReportOut(Out):
    """Report on the use of GPU-hours."""

    since: Annotated[Timestamp, Source("past.since")]
    until: Annotated[Timestamp, Source("past.until")]
    gpus: Annotated[int, Source("past.gpus")]
    """GPUs of the pool as it is now."""
    whole: Annotated[bool, Source("past.whole")]
    """True if it covers all jobs that there were."""
    currency: Annotated[str, Source("past.prices.currency")] = ""
    hours: HoursOut
    timeline: Sequence[HoursOut] = ()
    queues: Sequence[QueueHoursOut] = ()
    jobs: Sequence[JobReportOut] = ()
    """Jobs with the largest allocations first; no more than requested."""
    jobs_in_all: Annotated[int, Source("jobs"), Convert(len)] = 0
    target: Annotated[str, Derived(lambda report: str(report.target or ""))] = ""
    energy_kwh: float | None = None
    """Energy of the jobs for which it is known."""
    cost: float | None = None
    notes: Annotated[Sequence[str], Source("past.notes")] = ()
    """Unavailable values, and the reasons."""
    scalability: ScalabilityOut | None = None
    elasticity: ElasticityOut | None = None
    completion: SplitSideOut | None = None
    """Completion and waiting of the jobs that were submitted and ended in this time; null without any."""
    static: SplitOut | None = None
    """Simulated static partition; only on request, because it must be simulated."""
