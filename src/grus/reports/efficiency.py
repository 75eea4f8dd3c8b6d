"""Efficiency: useful output for the input that it took. Pure.

    output     steps that were new: beyond all that the job had reached before, none that were repeated;
               samples, if the job reports its batch (or counts `samples` itself)
    input      allocated GPU-hours, kilowatt-hours that its GPUs drew, and the cost of both
    to target  the time from its submission until a metric first met its target, and the GPU-hours allocated
               by then: a job can be busy all the time and learn nothing

Outputs of different jobs are not added up: a step of one is not a step of the other. A value that a job does
not report, or that is not measured, is None.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from grus.model.errors import BadInput, Mistake
from grus.model.jobs import Phase
from grus.model.metrics_history import BATCH, STEP, Reported
from grus.model.prices import Prices
from grus.reports.gpu_hours_breakdown import HOUR, JobHours, use
from grus.reports.history_types import JobPast, PoolHistory

JOULES_PER_KWH = 3.6e6
SAMPLES = "samples"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that jobs report, and what it shall become."""

    figure: str
    value: float
    below: bool
    """True if it shall fall to the value, False if it shall rise to it."""

    def met(self, value: float) -> bool:
        return value <= self.value if self.below else value >= self.value

    def __str__(self) -> str:
        return f"{self.figure}{'<=' if self.below else '>='}{self.value:g}"


def parse_target(text: str) -> Target:
    """Parse a target such as `loss<=0.3` or `accuracy>=0.9`. Raises BadInput."""
    for sign, below in (("<=", True), (">=", False)):
        name, found, number = text.partition(sign)
        if found and name.strip():
            try:
                value = float(number)
            except ValueError:
                break
            if not isfinite(value):
                break
            return Target(name.strip(), value, below)
    rule = "must name a figure, <= or >=, and a number, such as loss<=0.3"
    raise BadInput([Mistake("target", rule, text)])


@dataclass(frozen=True, slots=True)
class TargetReached:
    """Time at which a job met the target."""

    at: float
    since_submitted: float
    """Seconds."""
    since_started: float
    gpu_hours: float
    """GPU-hours that were allocated to it by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEfficiency:
    """Efficiency of one job, in the window."""

    steps: float | None = None
    samples: float | None = None
    energy: float | None = None
    """Kilowatt-hours of its GPUs."""
    cost: float | None = None
    """Cost of its GPU-hours at their price, and of its energy if that has a price of its own."""
    per_gpu_hour: float | None = None
    per_kwh: float | None = None
    per_cost: float | None = None
    """Samples for each, or steps if the batch is not reported."""
    target: TargetReached | None = None

    @property
    def output(self) -> float | None:
        return self.samples if self.samples is not None else self.steps

    @property
    def unit(self) -> str:
        """Return the unit of the outputs."""
        return SAMPLES if self.samples is not None else "steps" if self.steps is not None else ""


def efficiency(past: PoolHistory, one: JobHours, target: Target | None = None) -> JobEfficiency:
    """Return the results of one job's input."""
    steps, samples = output(one.past, past.since, past.until)
    energy = _energy(one)
    cost = _cost(past.prices, past.types.get(one.past.id, ""), one.held.allocated, energy)
    made = samples if samples is not None else steps
    return JobEfficiency(
        steps=steps,
        samples=samples,
        energy=energy,
        cost=cost,
        per_gpu_hour=_per(made, one.held.allocated),
        per_kwh=_per(made, energy),
        per_cost=_per(made, cost),
        target=None if target is None else reached(one.past, target),
    )


def _per(made: float | None, taken: float | None) -> float | None:
    return made / taken if made is not None and taken else None


# --------------------------------------------------------------------------------------------- output


def output(past: JobPast, since: float, until: float) -> tuple[float | None, float | None]:
    """New steps and new samples between two moments, each None where the job does not tell.

    Counted from report to report: a step is new if none before was as far. What came before the first report
    is reckoned at the speed of the first two, back to when its workers were up.
    """
    told = [one for one in past.curves.reports if one.figure(STEP) is not None]
    if not told:
        return None, _counted(past, since, until)
    batches = [one.figure(BATCH) for one in told]
    at, reached, steps, samples = _beginning(past, told), _first_step(past, told), 0.0, 0.0
    for one, batch in zip(told, batches, strict=True):
        new = max(0.0, (one.figure(STEP) or 0.0) - reached)
        part = new * _share(at, one.at, since, until)
        steps, samples = steps + part, samples + part * (batch or 0.0)
        at, reached = one.at, reached + new
    counted = _counted(past, since, until)
    by_batch = samples if all(batch is not None for batch in batches) else None
    return steps, counted if counted is not None else by_batch


def _counted(past: JobPast, since: float, until: float) -> float | None:
    """Samples, of a job that counts them itself."""
    told = [(one.at, value) for one in past.curves.reports if (value := one.figure(SAMPLES)) is not None]
    if not told:
        return None
    total, before, most = 0.0, told[0][0], 0.0
    for at, value in told:
        new = max(0.0, value - most)
        total += new * _share(before, at, since, until)
        before, most = at, most + new
    return total


def _share(start: float, end: float, since: float, until: float) -> float:
    """The part of an interval that lies between two moments; of an empty one all or nothing."""
    if end <= start:
        return 1.0 if since < end <= until else 0.0
    return max(0.0, min(end, until) - max(start, since)) / (end - start)


def _beginning(past: JobPast, told: Sequence[Reported]) -> float:
    """Return the time at which the workers of the first attempt that reported were up."""
    running = [
        span.start for span in past.spans if span.phase is Phase.RUNNING and span.attempt == told[0].attempt
    ]
    return min(running[0], told[0].at) if running else told[0].at


def _first_step(past: JobPast, told: Sequence[Reported]) -> float:
    """Return the step at that time: the job may continue from another job's checkpoint."""
    first = told[0].figure(STEP) or 0.0
    alike = [one for one in told[1:2] if one.attempt == told[0].attempt and one.at > told[0].at]
    if not alike:
        return 0.0
    speed = ((alike[0].figure(STEP) or 0.0) - first) / (alike[0].at - told[0].at)
    return max(0.0, first - speed * (told[0].at - _beginning(past, told)))


# ----------------------------------------------------------------------------------------------- input


def _energy(one: JobHours) -> float | None:
    """Return the energy of its whole run, scaled by the part of its GPU-hours that lies in the window."""
    run = one.past.run
    if run is None or run.energy is None:
        return None
    in_all = sum(span.gpu_seconds for span in one.past.held) / HOUR
    return run.energy / JOULES_PER_KWH * one.held.allocated / in_all if in_all > 0 else None


def _cost(prices: Prices, kind: str, gpu_hours: float, energy: float | None) -> float | None:
    price = prices.of(kind)
    if price is None and (prices.kwh is None or energy is None):
        return None
    return (price or 0.0) * gpu_hours + (prices.kwh or 0.0) * (energy or 0.0)


def reached(past: JobPast, target: Target) -> TargetReached | None:
    """Return when it first met a target, at any time of its life; None if it has not, or does not report
    it.
    """
    met = next((point for point in past.curves.of(target.figure) if target.met(point.value)), None)
    if met is None:
        return None
    begun = past.held[0].start if past.held else past.job.submitted_at
    held, _ = use(past, past.job.submitted_at, met.at)
    return TargetReached(met.at, met.at - past.job.submitted_at, met.at - begun, held)
