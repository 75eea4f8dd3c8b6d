"""A sweep as one HTML file to keep or to pass on: what was best, its charts, all trials. Pure.

The charts are those of its page. Plotly's script is passed in by the caller; nothing is loaded from anywhere.
"""

import math

from grus.api.wire_types.sweep import AxisOut, SweepOut, TrialOut
from grus.dashboard.views.sweep import HOUR, amount, charts
from grus.dashboard.views.sweep_search_data import SweepSnapshot, TrialRow, params_words, ranked, value_words
from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Goal, Rule, Stopping, Sweep
from grus.simulator.html_pages import page_skeleton

COLOURS = {
    **{f"--chart-{number + 1}": page_skeleton.COLOURS[number] for number in range(6)},
    "--chart-4": "#b04fc4",
    "--chart-mark": "#8a8f98",
    "--chart-rank-1": "#b04fc4",
    "--chart-rank-2": "#2f6fde",
    "--chart-rank-3": "rgba(47,111,222,0.55)",
    "--chart-rank-4": "rgba(47,111,222,0.3)",
    "--chart-rank-5": "rgba(47,111,222,0.15)",
    "--muted": "#8a8f98",
    "--surface": "rgba(0,0,0,0)",
}
"""Colors for both themes: a file has no style sheet that knows the present one."""
HEADINGS = (
    ("parallel", "Parameters", "A line a trial, the better the stronger; the last axis is the metric."),
    ("history", "Trials", "What each reached; the line is the best so far."),
    ("curves", "As they went on", "The metric of each, and how far it was then."),
    ("importance", "What mattered", "Part of the difference between trials that a parameter explains."),
)


def page(name: str, search: SweepSnapshot, script: str) -> str:
    """The whole file. `script` is Plotly's."""
    parts = [page_skeleton.answer(sentence(search))]
    drawn = charts(search)
    for key, heading, note in HEADINGS:
        figure = drawn[key]
        parts += [page_skeleton.heading(heading)]
        if "missing" in figure:
            parts.append(page_skeleton.note(str(figure["missing"])))
        else:
            parts += [page_skeleton.note(note), page_skeleton.plot(key, _coloured(figure))]
    parts += [page_skeleton.heading("All trials"), page_skeleton.table(*_table(search))]
    return page_skeleton.sheet(f"Sweep {name}", parts, script)


def search_of(told: SweepOut) -> SweepSnapshot:
    """Build a sweep from the server's answer. Facts missing from it, such as its budget, are not drawn."""
    return SweepSnapshot(
        sweep=Sweep(
            axes=tuple(_axis_of(axis) for axis in told.space),
            metric=told.metric,
            goal=Goal(told.goal),
            sampler=told.sampler,
            stopping=Stopping(rule=Rule.NONE, by=told.by),  # the answer does not contain the rungs
        ),
        trials=tuple(_trial_of(trial) for trial in told.trials),
        best=told.best,
        importance=tuple(told.importance.items()),
    )


def _axis_of(told: AxisOut) -> Axis:
    return Axis(**told.model_dump() | {"low": told.low or 0.0, "high": told.high or 0.0})


def _trial_of(told: TrialOut) -> TrialRow:
    return TrialRow(
        number=told.number,
        job=JobId(told.job),
        params=tuple(told.params.items()),
        phase=Phase(told.phase),
        value=told.value,
        curve=tuple((at, math.nan if value is None else value) for at, value in told.curve),
        gpu_seconds=told.gpu_hours * HOUR,
        gpus=told.gpus,
        seconds=told.seconds,
        why=told.why,
    )


def sentence(search: SweepSnapshot) -> str:
    """Summarize the sweep in a sentence."""
    hours = amount(sum(one.gpu_seconds for one in search.trials) / HOUR)
    tried = f"{len(search.trials)} trial{'s' * (len(search.trials) != 1)} took {hours} GPU-hours"
    best = search.winner
    if best is None:
        return f"{tried}; none has reported {search.sweep.metric} yet."
    goal = "lowest" if search.sweep.goal is Goal.MINIMIZE else "highest"
    reached = f"{search.sweep.metric} {value_words(best.value)}"
    return f"{tried}; the {goal} is {reached} of trial {best.number}: {params_words(best.params)}."


def _table(search: SweepSnapshot) -> tuple[list[str], list[list[str]]]:
    """The best first; those that cannot be compared last."""
    order = ranked(search)
    rest = [one for one in search.trials if one not in order]
    names = [axis.name for axis in search.sweep.axes]
    head = ["Trial", "State", search.sweep.metric, search.sweep.stopping.by, "GPU-hours", *names]
    rows = [
        [
            str(one.number),
            one.phase.value,
            value_words(one.value),
            value_words(one.reached),
            amount(one.gpu_seconds / HOUR),
            *(value_words(one.param(name)) for name in names),
        ]
        for one in (*order, *rest)
    ]
    return head, rows


def _coloured(value: object) -> dict[str, object]:
    found = _with_colours(value)
    assert isinstance(found, dict)
    return found


def _with_colours(value: object) -> object:
    if isinstance(value, str):
        return COLOURS.get(value, value)
    if isinstance(value, dict):
        return {key: _with_colours(one) for key, one in value.items()}
    return [_with_colours(one) for one in value] if isinstance(value, list) else value
