"""The whole report as one value: sections that follow from the same `PoolHistory`, each from a file of its
own.

A further section is one more field of `UsageReport` (None if it was not requested), made in `report`, and one
more field of the wire form, filled in `wire`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.api.scaling_wire import ElasticityOut, ScalabilityOut
from grus.model.identifiers import QueueName
from grus.reports.efficiency import JobEfficiency, Target, efficiency
from grus.reports.elasticity import elasticity
from grus.reports.gpu_hours_breakdown import AllocatedHours, Hours, JobHours, hours, timeline, total
from grus.reports.history_types import PoolHistory
from grus.reports.scaling_efficiency import scalability
from grus.reports.static_split import of_past
from grus.simulator.workload.history_trace import History

PARTS = 48
"""About so many parts of the window are shown over time."""
STEPS = (60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)
"""Seconds that a part may have: whole minutes, hours, days, a week."""


@dataclass(frozen=True, slots=True)
class QueuePart:
    """One queue's part of the hours."""

    name: QueueName
    jobs: int
    held: AllocatedHours
    waited: float
    """Seconds that its jobs waited though they could have run, together."""


@dataclass(frozen=True, slots=True)
class JobPart:
    hours: JobHours
    efficiency: JobEfficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    past: PoolHistory
    hours: Hours
    timeline: Sequence[Hours]
    """The same in parts of equal length, but for the first and the last."""
    queues: Sequence[QueuePart]
    jobs: Sequence[JobPart]
    """Those that held most first."""
    target: Target | None = None
    scalability: ScalabilityOut
    elasticity: ElasticityOut
    history: History
    """The jobs that were submitted and ended in this time."""


def report(past: PoolHistory, target: Target | None = None) -> UsageReport:
    """All sections that need nothing but the past."""
    whole, jobs = hours(past)
    parts = [JobPart(one, efficiency(past, one, target)) for one in jobs]
    scales = scalability(past)
    return UsageReport(
        past=past,
        hours=whole,
        timeline=timeline(past, step_of(past.seconds)),
        queues=_queues(jobs),
        jobs=sorted(parts, key=lambda part: (-part.hours.held.allocated, part.hours.past.job.submitted_at)),
        target=target,
        scalability=scales,
        elasticity=elasticity(past),
        history=of_past(past, scales),
    )


def step_of(seconds: float) -> float:
    """The length of the parts in which a window is shown."""
    return next((step for step in STEPS if seconds / step <= PARTS), STEPS[-1])


def _queues(jobs: Sequence[JobHours]) -> list[QueuePart]:
    names = sorted({one.past.job.spec.queue for one in jobs})
    found = []
    for name in names:
        mine = [one for one in jobs if one.past.job.spec.queue == name]
        held = total(one.held for one in mine)
        found.append(QueuePart(name, len(mine), held, sum(one.waited for one in mine)))
    return found
