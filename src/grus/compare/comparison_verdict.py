"""Results of a comparison that was run: every figure per environment, and its certainty. Pure.

Reasons against comparing (other work, a blocked environment, too few repeats) are listed before the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grus.compare import confounds, cpu_stress, run_metrics, statistics
from grus.compare.confounds import Confound
from grus.compare.cpu_stress import Effect, Load
from grus.compare.result_directory import Comparison, Side, missing
from grus.compare.run_metrics import MEASURES, Measure
from grus.compare.statistics import Ratio, Summary

SEED = 20
"""Seed of the bootstrap: the same runs give the same intervals."""
HEADLINES = ("samples/s", "steps/s", "run")
"""The first of them that both sides have is what the answer is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One figure: what it is in each environment, and how the others stand to the first."""

    measure: Measure
    summaries: tuple[Summary | None, ...]
    ratios: tuple[Ratio | None, ...]
    """Ratios to the first environment; None for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    found: Comparison
    confounds: tuple[Confound, ...]
    untold: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    stages: tuple[tuple[str, tuple[Summary | None, ...]], ...]
    """Seconds in every stage that the workload reported."""
    loads: tuple[Load, ...]
    effects: tuple[Effect, ...]
    between: Ratio | None
    """The part of the headline that remains under load in the second environment, divided by the first's."""
    missing: tuple[str, ...]
    """Names of runs that were requested and are missing."""

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(side.label for side in self.found.sides)

    @property
    def grave(self) -> tuple[Confound, ...]:
        return tuple(one for one in self.confounds if one.grave)

    @property
    def whole(self) -> bool:
        return not self.missing


def report(found: Comparison) -> ComparisonReport:
    rng = np.random.default_rng(SEED)
    rows = tuple(row for measure in MEASURES if (row := _row(found.sides, measure, rng)) is not None)
    main = headline(rows)
    return ComparisonReport(
        found=found,
        confounds=confounds.find(found),
        untold=confounds.untold(found),
        rows=rows,
        stages=_stages(found.sides, rng),
        loads=cpu_stress.loads(found),
        effects=cpu_stress.effects(found, rng),
        between=None if main is None else cpu_stress.between(found, main.measure, rng),
        missing=tuple(missing(found)),
    )


def _row(sides: Sequence[Side], measure: Measure, rng: np.random.Generator) -> ComparisonRow | None:
    """None where no environment has the figure."""
    values = [cpu_stress.values(side, measure, loaded=False) for side in sides]
    if not any(values):
        return None
    ratios = [None, *(statistics.ratio(one, values[0], rng) for one in values[1:])]
    return ComparisonRow(
        measure=measure,
        summaries=tuple(statistics.summary(one, rng) for one in values),
        ratios=tuple(ratios),
    )


def _stages(
    sides: Sequence[Side], rng: np.random.Generator
) -> tuple[tuple[str, tuple[Summary | None, ...]], ...]:
    """Return the seconds of each stage, in the order in which the stages first came."""
    times = [
        [run_metrics.stage_seconds(run.record) for run in side.sound(loaded=False) if run.record is not None]
        for side in sides
    ]
    names = list(dict.fromkeys(name for runs in times for run in runs for name in run))
    return tuple(
        (
            name,
            tuple(statistics.summary([run[name] for run in runs if name in run], rng) for runs in times),
        )
        for name in names
    )


# -------------------------------------------------------------------------------------------------- answers


def answers(made: ComparisonReport) -> tuple[str, ...]:
    """Summarize the results in sentences, obstacles first."""
    said = [f"These figures must not be compared: {one}." for one in made.grave]
    said += [_blocked(side) for side in made.found.sides if side.visit.blocked is not None]
    row = headline(made.rows)
    if row is None:
        said.append("Nothing can be compared: no figure was measured in two environments.")
    else:
        others = list(zip(made.labels, row.ratios, row.summaries, strict=True))[1:]
        said += [_compared(row, made, label, ratio) for label, ratio, its in others if its is not None]
    if made.rows and not any(row.measure.name == "steps/s" for row in made.rows):
        said.append(
            "No throughput is known: the workload reported no steps. "
            "Let it call grus.report(step=…, batch=…), or write such lines to GRUS_REPORT."
        )
    if made.untold and any(side.runs for side in made.found.sides):
        told, verb = " and ".join(made.untold), "was" if len(made.untold) == 1 else "were"
        said.append(f"Nobody can tell whether {told} {verb} the same: the workload and its job do not say.")
    said += [_load(made, load) for load in made.loads]
    if row is not None and made.between is not None:
        said.append(_between(made, row, made.between))
    return tuple(said)


def headline(rows: Sequence[ComparisonRow]) -> ComparisonRow | None:
    """The figure that the answer is about."""
    full = {row.measure.name: row for row in rows if sum(one is not None for one in row.summaries) > 1}
    return next((full[name] for name in HEADLINES if name in full), None)


def _blocked(side: Side) -> str:
    blocked = side.visit.blocked
    assert blocked is not None
    done = len(side.sound(loaded=False)) + len(side.sound(loaded=True))
    runs = "before its first run" if not done else f"after {done} runs" if done > 1 else "after one run"
    return f"{side.label} was blocked at {blocked.step}, {runs}: {blocked.why}"


def _compared(row: ComparisonRow, made: ComparisonReport, label: str, ratio: Ratio | None) -> str:
    first, name = made.labels[0], row.measure.name
    if ratio is None:
        return f"{name}: {label} cannot be set against {first}, which has none."
    words = f"{name}: {label} has {ratio.value:.3f} times what {first} has"
    if ratio.interval is None:
        fewest = min(one.count for one in row.summaries if one is not None)
        few = f"with {fewest} of at least {statistics.LEAST} repeats"
        return f"{words}; {few} nobody can say how sure that is."
    span = f"95 % interval {ratio.interval.low:.3f} to {ratio.interval.high:.3f}"
    if not ratio.clear:
        return f"{words} ({span}): no difference can be told."
    better = (ratio.value > 1) == (row.measure.better == "more")
    return f"{words} ({span}): {label} is {'faster' if better else 'slower'}."


def _load(made: ComparisonReport, load: Load) -> str:
    if not load.real:
        seen = "nobody measured it" if load.cores is None else f"it used {load.cores:.2f} cores"
        return (
            f"The load beside it hardly ran in {load.label}, so its effect cannot be told: "
            f"of {load.asked:g} processes that only compute, {seen}."
        )
    own = {one.measure.name: one for one in made.effects if one.label == load.label}
    effect = next((own[name] for name in HEADLINES if name in own), None)
    if effect is None:
        return f"A load of {load.cores:.2f} cores ran beside it in {load.label}."
    sure = (
        "no interval"
        if effect.ratio.interval is None
        else f"{effect.ratio.interval.low:.3f} to {effect.ratio.interval.high:.3f}"
    )
    return (
        f"Beside a CPU load of {load.cores:.2f} cores {load.label} has {effect.ratio.value:.3f} times "
        f"its own {effect.measure.name} ({sure})."
    )


def _between(made: ComparisonReport, row: ComparisonRow, ratio: Ratio) -> str:
    """Say whether one environment shields the workload better than the other."""
    first, second = made.labels[:2]
    part = f"{ratio.value:.3f} times the part of its {row.measure.name}"
    words = f"Beside the load {second} keeps {part} that {first} keeps"
    if ratio.interval is None:
        return f"{words}; nobody can say how sure that is."
    span = f"{ratio.interval.low:.3f} to {ratio.interval.high:.3f}"
    return f"{words} ({span})" + (": no difference can be told." if not ratio.clear else ".")
