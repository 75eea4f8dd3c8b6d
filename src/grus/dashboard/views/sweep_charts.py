"""The charts of a sweep as Plotly's plain values. Pure; the rules are those of `job_charts`.

Trials are drawn together, a trace a kind, so that thousands of them stay quick. Parallel coordinates are in
`parallel_coordinates`.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

from grus.dashboard.views.job_charts import LEGEND, Figure, across, missing, upright
from grus.dashboard.views.sweep_search_data import (
    SweepSnapshot,
    TrialRow,
    better,
    judged,
    params_words,
    value_words,
)
from grus.model.jobs import Phase
from grus.model.sweep_search import Goal, Rule
from grus.tuning.rungs import rungs as rungs_of

HEIGHT = 300
WIDE = 100.0
"""Values that differ by so many times are drawn on a logarithmic axis."""
MOST_CURVES = 200
"""Trials whose curves are drawn, those that came farthest first."""
KINDS: tuple[tuple[str, str, str], ...] = (
    ("ended", "--chart-1", "circle"),
    ("stopped early", "--chart-mark", "circle-open"),
    ("under way", "--chart-3", "diamond"),
    ("failed", "--chart-2", "x"),
)
"""Outcomes of trials: name, color, mark."""
NONE_YET = "No trial has reported {metric} yet: grus.report({metric}=…) does."


def kind(trial: TrialRow) -> str:
    if trial.phase is Phase.SUCCEEDED:
        return "ended"
    if trial.phase is Phase.STOPPED:
        return "stopped early"
    return "failed" if trial.phase is Phase.FAILED else "under way"


# ------------------------------------------------------------------------------------------------- history


def history(search: SweepSnapshot) -> Figure:
    """Draw the value that each trial reached, in the order in which they began, and the best so far as a
    line.
    """
    shown = judged(search.trials)
    if not shown:
        return missing(NONE_YET.format(metric=search.sweep.metric))
    traces: list[dict[str, object]] = []
    for name, colour, mark in KINDS:
        some = [one for one in shown if kind(one) == name]
        if some:
            traces.append(_dots(name, colour, mark, some))
    traces.append(_best_line(search, shown))
    layout = layout_of_all()
    values = [one.value for one in shown if one.value is not None]
    layout["xaxis"] = _trial_axis([one.number for one in shown])
    layout["yaxis"] = _metric_axis(search, values)
    layout["showlegend"] = True
    target = search.sweep.budget.target
    if target is not None and (target > 0 or not wide(values)):
        layout["shapes"] = [across(target)]
        layout["annotations"] = [_label(target, "target", log=wide(values))]
    return {"data": traces, "layout": layout}


def _trial_axis(numbers: Sequence[int]) -> dict[str, object]:
    """Whole numbers, at most about ten of them, with half a trial of room at both ends."""
    step = _round_step((max(numbers) - min(numbers)) / 10)
    first = min(numbers) - min(numbers) % step
    return {
        "title": {"text": "trial"},
        "range": [min(numbers) - 0.5, max(numbers) + 0.5],
        "tickmode": "linear",
        "tick0": first,
        "dtick": step,
        "tickformat": "d",
    }


def _round_step(rough: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, … that is not below."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if digit * size >= rough:
                return digit * size
        size *= 10


def _dots(name: str, colour: str, mark: str, trials: Sequence[TrialRow]) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [one.number for one in trials],
        "y": [one.value for one in trials],
        "text": [told(one) for one in trials],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colour, "size": 7, "symbol": mark},
    }


def told(trial: TrialRow) -> str:
    """Return the text in the box over a chart."""
    head = f"trial {trial.number}: {value_words(trial.value)}"
    return "<br>".join(escape(line) for line in (head, *_lines(params_words(trial.params))))


def _lines(words: str, width: int = 60) -> list[str]:
    """Broken at commas: a box over a chart has no lines of its own."""
    found = [""]
    for word in words.split(", ") if words else ():
        if found[-1] and len(found[-1]) + len(word) > width:
            found.append("")
        found[-1] += (", " if found[-1] else "") + word[:width]
    return [line for line in found if line]


def _best_line(search: SweepSnapshot, shown: Sequence[TrialRow]) -> dict[str, object]:
    best: list[float] = []
    for one in shown:
        value = one.value
        assert value is not None
        best.append(value if not best or better(search.sweep.goal, value, best[-1]) else best[-1])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": [one.number for one in shown],
        "y": best,
        "line": {"color": "--chart-4", "width": 2, "shape": "hv"},
        "hoverinfo": "skip",
    }


def importance(search: SweepSnapshot) -> Figure:
    """Draw the part of the difference between trials that each parameter explains."""
    found = sorted(search.importance, key=lambda pair: pair[1])
    if not found:
        return missing("Which parameters matter is worked out when enough trials have reported.")
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [round(part, 4) for _, part in found],
        "y": [escape(name[:32]) for name, _ in found],
        "marker": {"color": "--chart-1", "line": {"width": 0}},
        "hovertemplate": "%{y}: %{x:.0%}<extra></extra>",
    }
    layout = layout_of_all()
    layout |= {
        "height": max(140, 60 + 28 * len(found)),
        "hovermode": "closest",
        "xaxis": {"tickformat": ".0%", "range": [0, 1.02], "fixedrange": True},
        "yaxis": {"type": "category", "fixedrange": True},
    }
    return {"data": [trace], "layout": layout}


def curves(search: SweepSnapshot) -> Figure:
    """The metric of each trial as it went on; dotted lines are where trials are compared."""
    known = [one for one in search.trials if any(math.isfinite(value) for _, value in one.curve)]
    if not known:
        return missing(NONE_YET.format(metric=search.sweep.metric))
    known.sort(key=lambda one: -(one.reached or 0.0))
    shown = sorted(known[:MOST_CURVES], key=lambda one: one.number)
    traces = []
    for name, colour, _ in (KINDS[1], KINDS[3], KINDS[0], KINDS[2]):
        some = [one for one in shown if kind(one) == name and one.number != search.best]
        if some:
            traces.append(_curve_trace(name, colour, 1.0, some))
    if winner := [one for one in shown if one.number == search.best]:
        traces.append(_curve_trace("the best", "--chart-4", 2.5, winner))
    far = max(at for one in shown for at, _ in one.curve)
    layout = layout_of_all()
    layout["xaxis"] = {"title": {"text": escape(search.sweep.stopping.by)}, "rangemode": "tozero"}
    layout["yaxis"] = _metric_axis(search, [value for one in shown for _, value in one.curve])
    layout |= {"showlegend": True, "hovermode": "closest"}
    layout["shapes"] = [upright(at) for at in rungs(search, far)]
    return {"data": traces, "layout": layout}


def _curve_trace(name: str, colour: str, width: float, trials: Iterable[TrialRow]) -> dict[str, object]:
    x: list[float | None] = []
    y: list[float | None] = []
    texts: list[str] = []
    single = False
    for one in trials:
        points = [(at, value) for at, value in one.curve if math.isfinite(value)]
        single = single or len(points) == 1
        x += [*(at for at, _ in points), None]
        y += [*(value for _, value in points), None]
        texts += [f"trial {one.number}"] * len(points) + [""]
    return {
        "type": "scatter",
        "mode": "lines+markers" if single else "lines",
        "name": name,
        "x": x,
        "y": y,
        "text": texts,
        "hovertemplate": "%{text}: %{y:.4~g}<extra></extra>",
        "line": {"color": colour, "width": width},
        "marker": {"size": 4},
        "connectgaps": False,
    }


def rungs(search: SweepSnapshot, far: float) -> list[float]:
    """Return the rungs at which trials are compared, as far as any trial has come."""
    stopping = search.sweep.stopping
    if stopping.rule is Rule.MEDIAN:
        return []
    return [at for at in rungs_of(stopping) if at <= far]


# -------------------------------------------------------------------------------------------------- common


def layout_of_all() -> dict[str, object]:
    """Return the common layout of a sweep's charts."""
    return {
        "height": HEIGHT,
        "margin": {"l": 56, "r": 14, "t": 26, "b": 38},
        "xaxis": {},
        "yaxis": {},
        "hovermode": "closest",
        "showlegend": False,
        "legend": LEGEND,
    }


def _metric_axis(search: SweepSnapshot, values: Sequence[float]) -> dict[str, object]:
    least = "lower is better" if search.sweep.goal is Goal.MINIMIZE else "higher is better"
    axis: dict[str, object] = {
        "title": {"text": f"{escape(search.sweep.metric)} ({least})"},
        "tickformat": "~g",
        "fixedrange": True,
    }
    return {**axis, "type": "log"} if wide(values) else axis


def wide(values: Sequence[float]) -> bool:
    """Return whether an axis of them should be logarithmic."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) > WIDE * min(finite)


def _label(value: float, text: str, *, log: bool) -> dict[str, object]:
    """Beside a line across; on a logarithmic axis Plotly counts the places of labels in powers of ten."""
    place = {"xref": "paper", "x": 1, "xanchor": "right", "yanchor": "bottom"}
    return {**place, "y": math.log10(value) if log else value, "showarrow": False, "text": text}
