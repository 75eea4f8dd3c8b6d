"""Metric curves of jobs: the metrics that jobs report over time, thinned out. Pure.

Of each job about `MOST_POINTS` reports are kept, from its whole life: when there are more, every second one
is dropped and from then on only every second one is added. Each carries the number that it had among all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grus.model.identifiers import JobId

MOST_POINTS = 1000
"""Reports kept of a job."""
THROUGHPUT = "throughput"
"""Computed where the job reports none: samples a second if it reports its batch, else steps a second."""
STEP, BATCH = "step", "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Report of a job about itself at one moment."""

    job: JobId
    number: int
    """Number of the report, counted from 0 over all attempts, including those that are not kept."""
    attempt: int
    at: float
    figures: tuple[tuple[str, float], ...] = ()
    saved_at: float | None = None
    """Its last checkpoint at that moment."""
    gpus: int = 0
    """Micro-GPUs on which it computed."""

    def figure(self, name: str) -> float | None:
        return next((value for known, value in self.figures if known == name), None)


class Point(NamedTuple):
    at: float
    step: float | None
    """None where the job counts no steps."""
    value: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over time."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of one job, by name; and the reports that they are made of, in order."""

    reports: tuple[Reported, ...] = ()
    curves: tuple[Curve, ...] = ()

    def of(self, name: str) -> tuple[Point, ...]:
        """Empty where nothing of that name was reported."""
        return next((curve.points for curve in self.curves if curve.name == name), ())


def curves(reports: Iterable[Reported]) -> Curves:
    """Return a curve of each reported metric, and of the throughput."""
    ordered = tuple(sorted(reports, key=lambda one: one.number))
    found: dict[str, list[Point]] = {}
    for one in ordered:
        step = one.figure(STEP)
        for name, value in one.figures:
            found.setdefault(name, []).append(Point(one.at, step, value, one.attempt))
    if THROUGHPUT not in found and (points := _throughput(ordered)):
        found[THROUGHPUT] = points
    return Curves(ordered, tuple(Curve(name, tuple(found[name])) for name in sorted(found)))


def _throughput(reports: Sequence[Reported]) -> list[Point]:
    """Between two reports of one attempt, at the moment of the later one; nothing where no step was done."""
    found = []
    batches = all(one.figure(BATCH) is not None for one in reports if one.figure(STEP) is not None)
    before: Reported | None = None
    for one in reports:
        step = one.figure(STEP)
        if step is None:
            continue
        if before is not None and before.attempt == one.attempt and one.at > before.at:
            done = step - (before.figure(STEP) or 0.0)
            size = (one.figure(BATCH) or 0.0) if batches else 1.0
            if done > 0:
                found.append(Point(one.at, step, done * size / (one.at - before.at), one.attempt))
        before = one
    return found


def stride_of(newest: int) -> int:
    """Each which of the reports stays when this is the number of the newest one: 1, 2, 4, …"""
    stride = 1
    while newest >= stride * MOST_POINTS:
        stride *= 2
    return stride
