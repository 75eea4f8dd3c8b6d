"""Parallel coordinates of a sweep: a line per trial, over an axis per parameter. Pure.

They are lines over axes of our own: Plotly's own parallel coordinates need WebGL, which the pages' policy
does not permit. Trials are drawn together, a trace per color, so that thousands of them stay quick.
"""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from grus.dashboard.views.job_charts import Figure, missing
from grus.dashboard.views.sweep_charts import HEIGHT, NONE_YET, layout_of_all, told, wide
from grus.dashboard.views.sweep_search_data import (
    SweepSnapshot,
    TrialRow,
    between,
    marks,
    place_on,
    ranked,
    scale_marks,
)
from grus.model.sweep_search import Axis

STEPS = 5
"""Colors from the best to the worst trial: --chart-rank-1 to this one."""
MOST_AXES = 12
"""Parameters in the parallel coordinates; of more, those that matter most."""


def parallel(search: SweepSnapshot) -> Figure:
    """A line a trial, over an axis a parameter and the metric as the last one; the better, the stronger."""
    order = ranked(search)
    if not order:
        return missing(NONE_YET.format(metric=search.sweep.metric))
    axes = _axes(search)
    values = [one.value for one in order if one.value is not None]
    low, high, log = min(values), max(values), wide(values)
    names = [*(axis.name for axis in axes), search.sweep.metric]
    traces = []
    for rank, some in reversed(_by_rank(order)):
        points = [_line_of(one, axes, (low, high), log=log) for one in some]
        traces.append(_bundle(rank, some, points, len(names)))
    layout = layout_of_all()
    layout |= {
        "height": HEIGHT + 40,
        "hovermode": "closest",
        "margin": {"l": 60, "r": 60, "t": 44, "b": 16},
        "xaxis": {
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": [escape(name[:24]) for name in names],
            "side": "top",
            "range": [-0.15, len(names) - 0.85],
            "fixedrange": True,
            "zeroline": False,
            "gridcolor": "--chart-mark",
        },
        "yaxis": {"visible": False, "range": [-0.05, 1.05], "fixedrange": True},
        "annotations": _axis_labels([marks(axis) for axis in axes] + [scale_marks(low, high, log=log)]),
    }
    return {"data": traces, "layout": layout}


def _axes(search: SweepSnapshot) -> list[Axis]:
    axes = search.sweep.axes
    if len(axes) <= MOST_AXES:
        return list(axes)
    weight = dict(search.importance)
    kept = sorted(axes, key=lambda axis: -weight.get(axis.name, 0.0))[:MOST_AXES]
    return [axis for axis in axes if axis in kept]


def _by_rank(order: Sequence[TrialRow]) -> list[tuple[int, list[TrialRow]]]:
    """Parts of the trials from the best on; the very best is a part of its own."""
    rest = order[1:]
    ranks = [(2 + (STEPS - 1) * place // max(1, len(rest)), one) for place, one in enumerate(rest)]
    grouped = groupby(ranks, key=lambda pair: pair[0])
    return [(1, list(order[:1])), *((rank, [one for _, one in some]) for rank, some in grouped)]


def _line_of(
    trial: TrialRow, axes: Sequence[Axis], ends: tuple[float, float], *, log: bool
) -> list[float | None]:
    found = [place_on(axis, trial.param(axis.name)) for axis in axes]
    last = None if trial.value is None else between(*ends, trial.value, log=log)
    return [None if at is None else round(at, 5) for at in (*found, last)]


def _bundle(
    rank: int, trials: Sequence[TrialRow], points: Sequence[list[float | None]], axes: int
) -> dict[str, object]:
    """Several trials as one trace, with a gap between two of them."""
    texts = [[told(one)] * axes + [""] for one in trials]
    return {
        "type": "scatter",
        "mode": "lines+markers" if rank == 1 else "lines",
        "name": "the best" if rank == 1 else f"part {rank}",
        "x": [at for _ in trials for at in (*range(axes), None)],
        "y": [at for line in points for at in (*line, None)],
        "text": [text for line in texts for text in line],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": f"--chart-rank-{rank}", "width": 3 if rank == 1 else 1.25},
        "connectgaps": False,
    }


def _axis_labels(axes: Sequence[Sequence[tuple[float, str]]]) -> list[dict[str, object]]:
    return [
        {
            "x": place,
            "y": at,
            "text": escape(label[:16]),
            "showarrow": False,
            "xanchor": "right",
            "xshift": -4,
            "font": {"size": 10, "color": "--muted"},
            "bgcolor": "--surface",
        }
        for place, labels in enumerate(axes)
        for at, label in labels
    ]
