"""Comparisons for people: figures with their spread over the seeds, and one sentence of advice."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grus.simulation.outcomes import Outcome, mean
from grus.simulation.what_if import PRESENT, STATIC, WHAT_IF, Comparison, Side

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on."""
WORTH_IT = 0.10
"""Advice to buy needs at least this much off the mean completion time."""

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


def table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Heading and rows: one figure a row, one side a column."""
    heading = ["", *(side.name for side in comparison.sides)]
    rows = [["GPUs", *(_number(side.outcomes[0].gpus) for side in comparison.sides)]]
    rows.append(["jobs", *(_shown(figure(values(side, "jobs")), "number") for side in comparison.sides)])
    for name, label, kind in SHOWN:
        rows.append([label, *(_shown(figure(values(side, name)), kind) for side in comparison.sides)])
    return heading, rows


def queue_table(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
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


def as_json(comparison: Comparison) -> dict[str, object]:
    """Everything, for programs: every outcome, the means with their spread, and the sentences."""
    return {
        "change": comparison.change.words(),
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


def answer(comparison: Comparison, more: str = "--seeds 5 tells") -> str:
    """What the change would bring, as one sentence; begins with yes or no if it is one of buying GPUs.

    `more` is how the reader can be surer.
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
    if gain.spread is None:
        said += f" One world was looked at; {more} how sure this is."
    worth = gain.mean <= -WORTH_IT and (gain.spread is None or gain.mean + gain.spread < 0)
    if worth:
        return f"Yes, buy: {said}"
    return f"No, do not buy yet: {said}"


def against_static(comparison: Comparison) -> str:
    """What sharing the pool brings against each queue having its own part."""
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
    return f"{part:+.0%}".replace("-", "−")


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
