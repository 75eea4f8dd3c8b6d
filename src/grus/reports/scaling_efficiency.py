"""Scalability by both definitions: does a job still work when it is resized, and does it take full advantage?

The speed at a size is what jobs of one fingerprint did there in the time that is looked at: steps between two
of their reports, at one and the same size, divided by the seconds between them, all such pairs together.
Sizes that were not run then are taken from what earlier runs have shown. Speed-up is held against the
smallest size, so that nothing has to be guessed; the fit is the very one that the scheduler works with.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from grus.api.scaling_wire import FitOut, ResizeOut, ScalabilityOut, SpeedOut, SpeedupOut
from grus.model.interfaces import Event
from grus.model.metrics_history import BATCH, STEP, Reported
from grus.model.resources import GPU
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.rescale_events import resizes
from grus.scheduler.elasticity.throughput_model import StepModel, StepSample, dense_shapes, fit

FULL = 0.8
"""Efficiency from which on a size counts as taken full advantage of."""
SHORTEST = 5.0
"""Seconds at a size, and …"""
FEWEST_STEPS = 3.0
"""… steps there, from which on its speed is reported."""
USUAL_BATCH = 1024.0
"""Stands in for the batch of a job that does not tell it; only ratios matter then."""
MOST_FITTED = 64
"""Number of sizes with a reported fit."""
MOST_RESIZES = 500
MOST_SPEEDUPS = 100
"""Number of entries that are listed one by one; all of them count."""
WORLD = "world"
"""The metric in which a worker group reports its number of workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Work done at one size."""

    gpus: int
    steps: float | None
    """None of what earlier runs have shown, likewise `seconds`."""
    seconds: float | None
    step: float
    """Seconds of a step."""
    batch: float | None
    """Examples per step, all GPUs together; None if it is not reported."""
    nodes: int | None = None

    @property
    def local(self) -> float:
        """Examples of a step on one GPU."""
        return (self.batch or USUAL_BATCH) / self.gpus


def scalability(past: PoolHistory) -> ScalabilityOut:
    """Return the scalability of all jobs of the past; resizes count only if they happened in the window."""
    changes = [(job, one) for job in past.jobs for one in resizes(job) if past.since <= one.at <= past.until]
    worked = sum(one.worked is True for _, one in changes)
    failed = sum(one.worked is False for _, one in changes)
    changes.sort(key=lambda pair: pair[1].at)
    speedups = sorted(_speedups(past), key=lambda one: -sum(size.steps or 0.0 for size in one.sizes))
    return ScalabilityOut(
        resizes=tuple(
            ResizeOut.from_model(one, job=job.id, name=job.job.spec.name)
            for job, one in changes[-MOST_RESIZES:]
        ),
        resizes_in_all=len(changes),
        worked=worked,
        failed=failed,
        speedups=tuple(speedups[:MOST_SPEEDUPS]),
        sentence=_sentence(len(changes), worked, failed, speedups),
    )


# ------------------------------------------------------------------------------------------------- speeds


def paces(job: JobPast, since: float, until: float) -> dict[int, Pace]:
    """Return a job's pace at each whole number of GPUs between two moments."""
    found: dict[int, list[tuple[float, float, float | None]]] = {}
    points = [_Point.of(one) for one in job.curves.reports if since <= one.at <= until]
    sizes = SizeHistory(job.events)
    for before, after in pairwise(point for point in points if point is not None):
        if _alike(before, after, sizes):
            piece = (after.step - before.step, after.at - before.at, after.batch)
            found.setdefault(after.gpus // GPU, []).append(piece)
    known = {gpus: _pace(gpus, pieces) for gpus, pieces in found.items()}
    return {gpus: one for gpus, one in sorted(known.items()) if _enough(one)}


class SizeHistory:
    """Sizes that computed together over time, from the events of a job in order."""

    def __init__(self, events: Iterable[Event]) -> None:
        told = [(event.at, event.working) for event in events if event.working is not None]
        self._times = [at for at, _ in told]
        self._sizes = [size for _, size in told]

    def only(self, size: int, after: float, until: float) -> bool:
        """Return whether no event between the two moments reports another size."""
        first, last = bisect_right(self._times, after), bisect_right(self._times, until)
        return all(told == size for told in self._sizes[first:last])


class _Point(NamedTuple):
    """A report of a job that counts steps."""

    at: float
    step: float
    attempt: int
    gpus: int
    world: float | None
    batch: float | None

    @classmethod
    def of(cls, one: Reported) -> "_Point | None":
        figures = dict(one.figures)
        step = figures.get(STEP)
        if step is None:
            return None
        return cls(one.at, step, one.attempt, one.gpus, figures.get(WORLD), figures.get(BATCH))


def _alike(before: _Point, after: _Point, sizes: SizeHistory) -> bool:
    """Return whether the steps between two reports were all done at one size."""
    same = (
        before[2:5] == after[2:5]  # attempt, GPUs, workers
        and before.gpus >= GPU
        and before.gpus % GPU == 0
    )
    went_on = after.at > before.at and after.step > before.step
    return same and went_on and sizes.only(before.gpus, before.at, after.at)


def _pace(gpus: int, pieces: Sequence[tuple[float, float, float | None]]) -> Pace:
    steps, seconds = sum(piece[0] for piece in pieces), sum(piece[1] for piece in pieces)
    examples = [piece[0] * piece[2] for piece in pieces if piece[2] is not None]
    batch = sum(examples) / steps if len(examples) == len(pieces) else None
    return Pace(gpus=gpus, steps=steps, seconds=seconds, step=seconds / steps, batch=batch)


def _enough(one: Pace) -> bool:
    return (one.seconds or 0.0) >= SHORTEST and (one.steps or 0.0) >= FEWEST_STEPS


def together(several: Iterable[Mapping[int, Pace]]) -> dict[int, Pace]:
    """Merge the paces of several jobs at each size: their steps and seconds added up."""
    found: dict[int, list[tuple[float, float, float | None]]] = {}
    for one in several:
        for gpus, pace in one.items():
            found.setdefault(gpus, []).append((pace.steps or 0.0, pace.seconds or 0.0, pace.batch))
    return {gpus: _pace(gpus, found[gpus]) for gpus in sorted(found)}


def _speedups(past: PoolHistory) -> Iterable[SpeedupOut]:
    """One for each fingerprint and type of GPU of which a speed is known."""
    groups: dict[tuple[str, str], list[JobPast]] = {}
    for job in past.jobs:
        for kind in _types(job):
            groups.setdefault((job.fingerprint or job.id, kind), []).append(job)
    per_node = max((len(node.devices) for node in past.nodes), default=1)
    for (_, kind), jobs in groups.items():
        own = together(paces(job, past.since, past.until) for job in jobs)
        known = _with_earlier(own, jobs[-1], kind)
        if own and known:
            yield _speedup_out(jobs, kind, list(known.values()), per_node)


def _types(job: JobPast) -> list[str]:
    """Return the one type of GPU that it ran on; none for several types, whose steps cannot be separated."""
    types = {use.type for use in job.run.uses} if job.run is not None else set()
    types = types or {speed.type for speed in job.speeds} or {""}
    return [*types] if len(types) == 1 and "+" not in next(iter(types)) else []


def _with_earlier(own: Mapping[int, Pace], job: JobPast, kind: str) -> dict[int, Pace]:
    """Add the sizes that only earlier runs have shown; their batch is unknown unless all own paces report
    one.
    """
    told = all(pace.batch is not None for pace in own.values())
    earlier = {
        speed.gpus: Pace(
            gpus=speed.gpus,
            steps=None,
            seconds=None,
            step=speed.step,
            batch=speed.local * speed.gpus if told else None,
            nodes=speed.nodes,
        )
        for speed in job.speeds
        if speed.type == kind
    }
    return dict(sorted({**earlier, **own}.items()))


# ---------------------------------------------------------------------------------------------- speed-ups


def _speedup_out(jobs: Sequence[JobPast], kind: str, known: Sequence[Pace], per_node: int) -> SpeedupOut:
    unit = "examples" if all(pace.batch is not None for pace in known) else "steps"
    speeds = [(pace.batch if unit == "examples" and pace.batch else 1.0) / pace.step for pace in known]
    base = known[0]
    most = max([known[-1].gpus, *(int(job.most) for job in jobs)])
    fitted = _fitted(known, most, per_node) if len(known) > 1 else {}
    sizes = tuple(
        _speed_out(pace, speed, speed / speeds[0], base.gpus, _foretold(known, pace, per_node))
        for pace, speed in zip(known, speeds, strict=True)
    )
    last = sizes[-1]
    off = [one.foretold / one.speedup - 1 for one in sizes if one.foretold is not None]
    return SpeedupOut(
        name=jobs[-1].job.spec.name,
        type=kind,
        jobs=tuple(job.id for job in jobs),
        unit=unit,
        sizes=sizes,
        fit=tuple(fitted.values()),
        error=math.sqrt(sum(part * part for part in off) / len(off)) if off else None,
        full=last.efficiency >= FULL if len(sizes) > 1 else None,
        sentence=_told(jobs[-1].job.spec.name, sizes, unit),
    )


def _speed_out(pace: Pace, speed: float, speedup: float, base: int, foretold: float | None) -> SpeedOut:
    return SpeedOut(
        gpus=pace.gpus,
        throughput=speed,
        speedup=speedup,
        efficiency=speedup * base / pace.gpus,
        foretold=foretold,
        steps=pace.steps,
        seconds=pace.seconds,
    )


def _foretold(known: Sequence[Pace], one: Pace, per_node: int) -> float | None:
    """The speed-up that a fit to the other sizes gives this one: the fit to all of them goes through each,
    and so says nothing of how far it may be off elsewhere."""
    others = [pace for pace in known if pace is not one]
    if one is known[0] or len(others) < 2:
        return None
    base, speed = _throughputs(
        fit(_sample(pace, per_node) for pace in others), _local(known, (known[0].gpus, one.gpus)), per_node
    )
    return speed / base


def _fitted(known: Sequence[Pace], most: int, per_node: int) -> dict[int, FitOut]:
    """Return the fit for each size from the smallest that was run to the largest that can be used."""
    model = fit(_sample(pace, per_node) for pace in known)
    sizes = _sizes(known, most)
    local = _local(known, sizes)
    speeds = _throughputs(model, local, per_node)
    shapes = dense_shapes(sizes, per_node)
    spread = model.uncertainty(
        [nodes for nodes, _ in shapes], [gpus for _, gpus in shapes], [local[size] for size in sizes]
    )
    return {
        size: FitOut(
            gpus=size,
            speedup=speed / speeds[0],
            low=speed / speeds[0] * math.exp(-float(sigma)),
            high=speed / speeds[0] * math.exp(float(sigma)),
        )
        for size, speed, sigma in zip(sizes, speeds, spread, strict=True)
    }


def _local(known: Sequence[Pace], sizes: Iterable[int]) -> dict[int, float]:
    """Examples of a step on one GPU at each size: a part of the batch, or as many as ever if that grew."""
    total = known[0].batch or USUAL_BATCH
    grows = any(abs((pace.batch or USUAL_BATCH) / total - 1) > 0.01 for pace in known)
    return {size: known[0].local if grows else total / size for size in sizes}


def _throughputs(model: StepModel, local: Mapping[int, float], per_node: int) -> list[float]:
    shapes = dense_shapes(local, per_node)
    _, seconds = model.times([nodes for nodes, _ in shapes], [gpus for _, gpus in shapes], [*local.values()])
    return [gpus * local[gpus] / float(step) for (_, gpus), step in zip(shapes, seconds, strict=True)]


def _sample(pace: Pace, per_node: int) -> StepSample:
    [(dense, _)] = dense_shapes([pace.gpus], per_node)
    return StepSample(pace.nodes or dense, pace.gpus, pace.local, pace.step, 0.0)


def _sizes(known: Sequence[Pace], most: int) -> list[int]:
    """All of them, or so many at equal factors; those that were run at any rate."""
    first = known[0].gpus
    every = range(first, most + 1)
    if len(every) > MOST_FITTED:
        steps = (first * (most / first) ** (n / (MOST_FITTED - 1)) for n in range(MOST_FITTED))
        return sorted({round(size) for size in steps} | {pace.gpus for pace in known})
    return list(every)


# -------------------------------------------------------------------------------------------------- words


def _told(name: str, sizes: Sequence[SpeedOut], unit: str) -> str:
    first, last = sizes[0], sizes[-1]
    if len(sizes) == 1:
        return f"{name} ran on {_gpus(first.gpus)} only: {first.throughput:.3g} {unit} a second."
    best = max((one for one in sizes if one.efficiency >= FULL), key=lambda one: one.gpus)
    said = (
        f"{name} is {last.speedup:.2f} times as fast on {_gpus(last.gpus)} as on {first.gpus}: "
        f"{last.efficiency:.0%} of full advantage"
    )
    if best is last:
        return f"{said}."
    until = f"up to {_gpus(best.gpus)}" if best is not first else "at no larger size"
    return f"{said}; it takes at least {FULL:.0%} {until}."


def _sentence(count: int, worked: int, failed: int, speedups: Sequence[SpeedupOut]) -> str:
    if not count:
        said = "No job was resized."
    elif worked == count:
        said = "The one resize worked." if count == 1 else f"All {count} resizes worked."
    else:
        unseen = count - worked - failed
        parts = [f"{worked} of {count} resizes worked", f"{failed} failed"]
        said = ", ".join([*parts, *([f"of {unseen} nothing can be told"] if unseen else [])]) + "."
    measured = [one for one in speedups if one.full is not None]
    if not measured:
        return f"{said} No job was measured at more than one size."
    full = sum(one.full is True for one in measured)
    return f"{said} {full} of {len(measured)} kinds of jobs take full advantage of their largest size."


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
