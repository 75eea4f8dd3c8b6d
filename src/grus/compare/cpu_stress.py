"""Cost of a CPU-heavy load beside the workload, in each environment. Pure.

The load is the sampler's: processes that do nothing but compute, one per core that the run may use. An
environment that isolates jobs (cores of its own) loses less by it than one that does not. The load is
measured, and an effect is only reported if the load was real.
"""

from dataclasses import dataclass

import numpy as np

from grus.compare import run_metrics, statistics
from grus.compare.result_directory import Comparison, ComparisonRun, Side
from grus.compare.run_metrics import Measure, MeasuredRun
from grus.compare.statistics import Ratio

LEAST = 0.25
"""The part of the asked-for load that must have run; a load that did not get the CPU shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One figure with the load, by the same without."""

    label: str
    measure: Measure
    without: float
    beside: float
    ratio: Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The measured load in an environment."""

    label: str
    asked: float
    """Processes."""
    cores: float | None
    """Cores that they used, as a mean of the runs."""

    @property
    def real(self) -> bool:
        return self.cores is not None and self.cores >= LEAST * self.asked


def loads(found: Comparison) -> tuple[Load, ...]:
    """Return the load of every environment that ran with one."""
    each = []
    for side in found.sides:
        runs = _taken(side.sound(loaded=True))
        cores = [value for taken in runs if (value := run_metrics.load_mean(taken)) is not None]
        if runs:
            asked = max(float(taken.record.load) for taken in runs)
            mean = sum(cores) / len(cores) if cores else None
            each.append(Load(label=side.label, asked=asked, cores=mean))
    return tuple(each)


def effects(found: Comparison, rng: np.random.Generator) -> tuple[Effect, ...]:
    """Return the effect on every figure that has a better direction, in every environment whose load was
    real.
    """
    real = {load.label for load in loads(found) if load.real}
    made = []
    for side in found.sides:
        if side.label in real:
            made += [
                one for measure in run_metrics.MEASURES if (one := _effect(side, measure, rng)) is not None
            ]
    return tuple(made)


def between(found: Comparison, measure: Measure, rng: np.random.Generator) -> Ratio | None:
    """Compare the environments: the part of a figure that remains under load in the second, divided by the
    first's.
    """
    real = {load.label for load in loads(found) if load.real}
    sides = found.sides[:2]
    if not real.issuperset(side.label for side in sides):
        return None
    groups = [values(side, measure, loaded=loaded) for side in sides for loaded in (False, True)]
    return statistics.combined(groups, lambda m: (m[3] / m[2]) / (m[1] / m[0]), rng, nonzero=(0, 1, 2))


def values(side: Side, measure: Measure, *, loaded: bool) -> list[float]:
    """The figure in each sound run of one kind."""
    found = [measure.of(taken) for taken in _taken(side.sound(loaded=loaded))]
    return [value for value in found if value is not None]


def _effect(side: Side, measure: Measure, rng: np.random.Generator) -> Effect | None:
    without, beside = values(side, measure, loaded=False), values(side, measure, loaded=True)
    ratio = statistics.ratio(beside, without, rng) if measure.better else None
    if ratio is None:
        return None
    return Effect(
        label=side.label,
        measure=measure,
        without=sum(without) / len(without),
        beside=sum(beside) / len(beside),
        ratio=ratio,
    )


def _taken(runs: list[ComparisonRun]) -> list[MeasuredRun]:
    return [MeasuredRun(record=run.record, ending=run.ending) for run in runs if run.record is not None]
