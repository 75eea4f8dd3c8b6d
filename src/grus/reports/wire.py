"""A report as it goes over the wire. Pure."""

from collections.abc import Iterable

from grus.api.wire_types.report import JobReportOut, ReportOut
from grus.reports.build_report import UsageReport
from grus.reports.static_split import measured_side
from grus.simulator.workload.history_trace import measured

MOST_JOBS = 1000
"""Number of jobs that are listed one by one."""


def report_out(found: UsageReport, most: int = MOST_JOBS) -> ReportOut:
    types, was = found.past.types, measured(found.history)
    jobs = [
        JobReportOut.from_model(one, gpu_type=types.get(one.hours.past.job.id, ""))
        for one in found.jobs[:most]
    ]
    return ReportOut.from_model(
        found,
        jobs=jobs,
        energy_kwh=_sum(one.efficiency.energy for one in found.jobs),
        cost=_sum(one.efficiency.cost for one in found.jobs),
        completion=None if was is None else measured_side(was),
        static=None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
