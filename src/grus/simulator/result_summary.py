"""Comparisons for people: figures with their spread over the seeds, and one sentence of advice."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from grus.simulator.events.decision_executor import Costs
from grus.simulator.outcome_metrics import MeasuredTimes, SimulationOutcome, mean
from grus.simulator.whatif_scenarios import PRESENT, STATIC, WHAT_IF, Side, WhatIfComparison

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on."""
WORTH_IT = 0.10
"""Advice to buy needs at least this much off the mean completion time."""
DAY = 86_400.0
FEWEST_JOBS = 20
"""Jobs that advice to buy needs: fewer are anecdotes."""
SHORTEST_DAYS = 2.0
"""Days of jobs that advice to buy needs: a single day may be an exception."""
LEAST_USE = 0.3
"""Part of the GPU-time that jobs must hold: below it most GPUs stand free, and other hours cost nothing."""
FARTHEST = 0.5
"""A simulated mean completion that is off the measured one by more cannot support advice."""
MEASURED = "measured"

SHOWN: tuple[tuple[str, str, str], ...] = (
    ("jct_mean", "completion, mean", "time"),
    ("jct_p50", "completion, p50", "time"),
    ("jct_p99", "completion, p99", "time"),
    ("wait_mean", "waiting, mean", "time"),
    ("wait_p99", "waiting, p99", "time"),
    ("makespan", "makespan", "time"),
    ("utilisation", "utilisation", "part"),
    ("useful", "useful utilisation", "part"),
    ("fragmentation", "fragmentation", "part"),
    ("slowdown_mean", "slowdown, mean", "number"),
    ("fairness_mean", "finish-time fairness, mean", "number"),
    ("fairness_max", "finish-time fairness, worst", "number"),
    ("longest_queue", "longest queue", "number"),
    ("preemptions", "preemptions", "number"),
    ("resizes", "resizes", "number"),
    ("lost_gpu_hours", "lost GPU-hours", "number"),
    ("quota_violations", "quota violations", "number"),
    ("unfinished", "unfinished jobs", "number"),
)
"""Rows of the table: figure, label, kind."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over the seeds, and the half-width of its 95 % interval (None with one seed)."""

    mean: float
    spread: float | None


def figure(values: Sequence[float]) -> Figure:
    middle = mean(values)
    if len(values) < 2:
        return Figure(middle, None)
    freedom = len(values) - 1
    deviation = math.sqrt(math.fsum((value - middle) ** 2 for value in values) / freedom)
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 2.0
    return Figure(middle, quantile * deviation / math.sqrt(len(values)))


def values(side: Side, name: str) -> list[float]:
    return [float(getattr(outcome, name)) for outcome in side.outcomes]


def table(comparison: WhatIfComparison) -> tuple[list[str], list[list[str]]]:
    """Heading and rows: one figure a row, one side a column."""
    heading = ["", *(side.name for side in comparison.sides)]
    shown = (("gpus", "GPUs", "number"), ("jobs", "jobs", "number"), *SHOWN)
    rows = [
        [label, *(_shown(figure(values(side, name)), kind) for side in comparison.sides)]
        for name, label, kind in shown
    ]
    if (was := comparison.measured) is None:
        return heading, rows
    cells = [_was(was, name, kind) for name, _, kind in shown]
    return [heading[0], MEASURED, *heading[1:]], [
        [row[0], cell, *row[1:]] for row, cell in zip(rows, cells, strict=True)
    ]


def _was(was: MeasuredTimes, name: str, kind: str) -> str:
    """A measured figure; a dash where only a simulation has one."""
    value = getattr(was, name, None)
    return "–" if value is None else _shown(Figure(float(value), None), kind)


def queue_table(outcome: SimulationOutcome) -> tuple[list[str], list[list[str]]]:
    heading = ["QUEUE", "JOBS", "COMPLETION", "WAITING", "P99", "SLOWDOWN", "GPU-HOURS", "PREEMPTIONS"]
    return heading, [
        [
            queue.queue,
            str(queue.jobs),
            span(queue.jct_mean),
            span(queue.wait_mean),
            span(queue.wait_p99),
            _number(queue.slowdown_mean),
            _number(queue.gpu_hours),
            str(queue.preemptions),
        ]
        for queue in outcome.queues
    ]


def as_json(comparison: WhatIfComparison) -> dict[str, object]:
    """Everything, for programs: every outcome, the means with their spread, and the sentences."""
    return {
        "change": comparison.change.words(),
        "measured": None if comparison.measured is None else asdict(comparison.measured),
        "sides": {
            side.name: {
                "outcomes": [outcome.as_json() for outcome in side.outcomes],
                "figures": {
                    name: {"mean": found.mean, "spread": found.spread}
                    for name, _, _ in SHOWN
                    for found in (figure(values(side, name)),)
                },
            }
            for side in comparison.sides
        },
        "answer": answer(comparison),
        "against_static": against_static(comparison),
    }


# ---------------------------------------------------------------------------------------------- sentences


def answer(comparison: WhatIfComparison, more: str = "--seeds 5 tells") -> str:
    """Answer in one sentence what the change would bring; begins with yes or no for a purchase of GPUs.

    `more` is the way to a more certain answer.
    """
    now, then = comparison.side(PRESENT), comparison.side(WHAT_IF)
    if now is None or then is None:
        return ""
    change = comparison.change
    buys = bool(change.add_nodes) and not change.remove
    gain = figure(_relative(now, then, "jct_mean"))
    said = (
        f"{change.words()}, jobs complete in {_mean_span(then, 'jct_mean')} on average "
        f"instead of {_mean_span(now, 'jct_mean')} ({_percent(gain)}) "
        f"and wait {_mean_span(then, 'wait_mean')} instead of {_mean_span(now, 'wait_mean')}; "
        f"the pool is used to {_mean_part(then, 'utilisation')} instead of {_mean_part(now, 'utilisation')}."
    )
    if not buys:
        return said[0].upper() + said[1:]
    if lacks := missing(comparison):
        return f"No advice on buying: it needs {'; '.join(lacks)}. Simulated: {said}"
    if gain.spread is None:
        said += f" One world was looked at; {more} how sure this is."
    worth = gain.mean <= -WORTH_IT and (gain.spread is None or gain.mean + gain.spread < 0)
    if worth:
        return f"Yes, buy: {said}"
    return f"No, do not buy yet: {said}"


def missing(comparison: WhatIfComparison) -> list[str]:
    """Evidence that advice to buy needs and that these jobs do not give; each with what there is."""
    now, was = comparison.side(PRESENT), comparison.measured
    assert now is not None
    seen: MeasuredTimes | SimulationOutcome = was or now.outcomes[0]
    found = []
    if seen.makespan < SHORTEST_DAYS * DAY:
        found.append(f"at least {SHORTEST_DAYS:g} days of jobs (there are {span(seen.makespan)})")
    if seen.jobs < FEWEST_JOBS:
        found.append(f"at least {FEWEST_JOBS} jobs (there are {seen.jobs})")
    if seen.utilisation < LEAST_USE:
        found.append(f"a pool used to at least {LEAST_USE:.0%} (it is used to {seen.utilisation:.0%})")
    if was is not None and abs(_off(was, now.outcomes[0])) > FARTHEST:
        found.append(
            f"a simulation within {FARTHEST:.0%} of the measured mean completion "
            f"({span(now.outcomes[0].jct_mean)} simulated, {span(was.jct_mean)} measured)"
        )
    return found


def _off(was: MeasuredTimes, now: SimulationOutcome) -> float:
    """The part by which the simulated mean completion is longer than the measured one."""
    return now.jct_mean / was.jct_mean - 1 if was.jct_mean > 0 else 0.0


def model(comparison: WhatIfComparison, costs: Costs) -> str:
    """Assumptions of the simulated present, and its distance from the measured one; empty without that."""
    now, was = comparison.side(PRESENT), comparison.measured
    if now is None or was is None:
        return ""
    return (
        f"Model: each job works as long as it did, its own start-up included; a start adds {costs.start:.2f}"
        f" s and a pause {costs.pause:.2f} s. Failures, dependencies, and pauses and sizes that people set "
        f"are not repeated. Simulated mean completion: {_seconds(now.outcomes[0].jct_mean)}, measured: "
        f"{_seconds(was.jct_mean)} ({_signed(_off(was, now.outcomes[0]))})."
    )


def _seconds(value: float) -> str:
    """Two digits more than `span` shows of a short time, so that two results can be compared."""
    return f"{value:.1f} s" if value < 120 else span(value)


def against_static(comparison: WhatIfComparison) -> str:
    """Describe the benefit of sharing the pool, compared with a separate part for each queue."""
    now, split = comparison.side(PRESENT), comparison.side(STATIC)
    if now is None or split is None:
        return ""
    gain = figure(_relative(split, now, "jct_mean"))
    return (
        f"One pool instead of a static split: jobs complete in {_mean_span(now, 'jct_mean')} on average "
        f"instead of {_mean_span(split, 'jct_mean')} ({_percent(gain)}) "
        f"and wait {_mean_span(now, 'wait_mean')} instead of {_mean_span(split, 'wait_mean')}."
    )


def _relative(before: Side, after: Side, name: str) -> list[float]:
    """The change seed by seed, as a part of what it was."""
    pairs = zip(values(before, name), values(after, name), strict=True)
    return [new / old - 1 if old else 0.0 for old, new in pairs]


def _percent(gain: Figure) -> str:
    if gain.spread is None:
        return _signed(gain.mean)
    low, high = _signed(gain.mean - gain.spread), _signed(gain.mean + gain.spread)
    return f"{_signed(gain.mean)}, 95 % interval {low} to {high}"


def _signed(part: float) -> str:
    return f"{round(part, 2) + 0.0:+.0%}".replace("-", "−")


def _mean_span(side: Side, name: str) -> str:
    return span(mean(values(side, name)))


def _mean_part(side: Side, name: str) -> str:
    return f"{mean(values(side, name)):.0%}"


def _shown(found: Figure, kind: str) -> str:
    show = {"time": span, "part": _part, "number": _number}[kind]
    spread = f" ± {show(found.spread)}" if found.spread else ""
    return show(found.mean) + spread


def span(seconds: float) -> str:
    """A length of time: 45s, 3.2m, 2.5h, 1.2d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "m")):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


def _part(value: float) -> str:
    return f"{value:.1%}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"
