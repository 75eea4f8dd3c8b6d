"""A report as it goes over the wire. Pure."""

from collections.abc import Iterable

from grus.api.wire_types.report import (
    HeldOut,
    HoursOut,
    JobReportOut,
    QueueHoursOut,
    ReportOut,
    TargetOut,
)
from grus.api.wire_types.timestamps import rfc3339
from grus.reports.build_report import JobPart, UsageReport
from grus.reports.efficiency import TargetReached
from grus.reports.gpu_hours_breakdown import AllocatedHours, Hours
from grus.reports.report_data_types import PoolHistory
from grus.reports.static_split import measured_side
from grus.simulation.workload.history_trace import measured

MOST_JOBS = 1000
"""Number of jobs that are listed one by one."""


def report_out(found: UsageReport, most: int = MOST_JOBS) -> ReportOut:
    past, was = found.past, measured(found.history)
    return ReportOut(
        since=rfc3339(past.since),
        until=rfc3339(past.until),
        gpus=past.gpus,
        whole=past.whole,
        currency=past.prices.currency,
        hours=hours_out(found.hours),
        timeline=[hours_out(part) for part in found.timeline],
        queues=[
            QueueHoursOut(name=one.name, jobs=one.jobs, held=held_out(one.held), waited=one.waited)
            for one in found.queues
        ],
        jobs=[_job_out(past, one) for one in found.jobs[:most]],
        jobs_in_all=len(found.jobs),
        target="" if found.target is None else str(found.target),
        energy_kwh=_sum(one.efficiency.energy for one in found.jobs),
        cost=_sum(one.efficiency.cost for one in found.jobs),
        notes=past.notes,
        scalability=found.scalability,
        elasticity=found.elasticity,
        completion=None if was is None else measured_side(was),
    )


def hours_out(one: Hours) -> HoursOut:
    return HoursOut(
        since=rfc3339(one.since),
        until=rfc3339(one.until),
        capacity=one.capacity,
        held=held_out(one.held),
        demand=one.demand,
        waiting=one.waiting,
        fragmentation=one.fragmentation,
        unwanted=one.unwanted,
    )


def held_out(one: AllocatedHours) -> HeldOut:
    return HeldOut(
        allocated=one.allocated,
        measured=one.measured,
        busy=one.busy,
        useful=one.useful,
        idle=one.idle,
        over_asking=one.over_asking,
        restarted=one.restarted,
        failed=one.failed,
        utilisation=one.utilisation,
    )


def _job_out(past: PoolHistory, one: JobPart) -> JobReportOut:
    job, made = one.hours.past.job, one.efficiency
    return JobReportOut(
        id=job.id,
        name=job.spec.name,
        queue=job.spec.queue,
        user=job.user,
        phase=job.phase.value,
        submitted_at=rfc3339(job.submitted_at),
        attempts=job.attempt,
        gpu_type=past.types.get(job.id, ""),
        ran=one.hours.ran,
        waited=one.hours.waited,
        held=held_out(one.hours.held),
        steps=made.steps,
        samples=made.samples,
        unit=made.unit,
        per_gpu_hour=made.per_gpu_hour,
        per_kwh=made.per_kwh,
        per_cost=made.per_cost,
        energy_kwh=made.energy,
        cost=made.cost,
        target=None if made.target is None else _target_out(made.target),
    )


def _target_out(one: TargetReached) -> TargetOut:
    return TargetOut(
        at=rfc3339(one.at),
        since_submitted=one.since_submitted,
        since_started=one.since_started,
        gpu_hours=one.gpu_hours,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
