"""The whole report as one value: sections that follow from the same `Past`, each from a file of its own.

A further section is one more field of `Report` (None where it was not asked for), made in `report`, and one
more field of the wire form, filled in `wire`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.api.scaling_wire import ElasticityOut, ScalabilityOut
from grus.model.identifiers import QueueName
from grus.reports.efficiency import JobEfficiency, Target, efficiency
from grus.reports.elasticity import elasticity
from grus.reports.hours import Held, Hours, JobHours, hours, timeline, total
from grus.reports.past import Past
from grus.reports.scalability import scalability

PARTS = 48
"""About so many parts of the window are shown over time."""
STEPS = (60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)
"""Seconds that a part may have: whole minutes, hours, days, a week."""


@dataclass(frozen=True, slots=True)
class QueuePart:
    """One queue's part of the hours."""

    name: QueueName
    jobs: int
    held: Held
    waited: float
    """Seconds that its jobs waited though they could have run, together."""


@dataclass(frozen=True, slots=True)
class JobPart:
    hours: JobHours
    efficiency: JobEfficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    past: Past
    hours: Hours
    timeline: Sequence[Hours]
    """The same in parts of equal length, but for the first and the last."""
    queues: Sequence[QueuePart]
    jobs: Sequence[JobPart]
    """Those that held most first."""
    target: Target | None = None
    scalability: ScalabilityOut
    elasticity: ElasticityOut


def report(past: Past, target: Target | None = None) -> Report:
    """All sections that need nothing but the past."""
    whole, jobs = hours(past)
    parts = [JobPart(one, efficiency(past, one, target)) for one in jobs]
    return Report(
        past=past,
        hours=whole,
        timeline=timeline(past, step_of(past.seconds)),
        queues=_queues(jobs),
        jobs=sorted(parts, key=lambda part: (-part.hours.held.allocated, part.hours.past.job.submitted_at)),
        target=target,
        scalability=scalability(past),
        elasticity=elasticity(past),
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
