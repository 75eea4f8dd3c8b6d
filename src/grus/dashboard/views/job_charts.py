"""The charts of one job as plain values for `lines.js`: use, memory, power, loss and throughput. Pure.

Times are Unix seconds; the page shows them in the reader's own time zone. Colors are names of the style
sheet's custom properties, so that one figure serves light and dark. A chart that has nothing to show is
`{"missing": sentence}`: what is not there, and what would bring it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from grus.dashboard.views.job_timeline import Strip
from grus.model.activity_labels import Tag
from grus.model.metrics_history import BATCH, STEP, THROUGHPUT, Curve, Curves, Point
from grus.model.texts.formatting import span
from grus.patterns.demand_forecast import Forecast, Nothing
from grus.telemetry.tsdb import Series

Figure = dict[str, object]

GIGABYTE = 1e9
MOST_BOUNDARIES = 60
"""Periods that are marked one by one; of more the lines would be a grey wall, and only the last is marked."""
MOST_OTHERS = 5
"""Other figures that a job reports and that are drawn."""
BOOKKEEPING = frozenset(
    {STEP, BATCH, "total", "epoch", "epochs", "stall", "redone", "samples", "step_seconds", "world"}
    | {"samples_per_s"}
)
"""Figures that say how far it is, not how well it does."""
HEIGHT = 230
LEGEND: Figure = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
FEW = 12
"""Points up to which each of them is marked: a line of one would not be seen."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A measure over time, with what it is called."""

    name: str
    series: Series
    colour: str


def missing(sentence: str) -> Figure:
    return {"missing": sentence}


# ------------------------------------------------------------------------------------------------ telemetry


def use(series: Series | None, tag: Tag | None, ahead: Forecast | Nothing | None) -> Figure:
    """Draw the utilization, the recognized period as lines and one bracket, and the band of the forecast."""
    if series is None or not known(series):
        return missing("Nothing was measured of its GPUs yet; it is, once a second, while it runs.")
    times = _times(series)
    values = _values(series)
    traces = [
        {  # what is not known has no area: one line with gaps would be filled across them
            "type": "scatter",
            "mode": "none",
            "x": times,
            "y": [value or 0 for value in values],
            "fill": "tozeroy",
            "fillcolor": "--chart-1-soft",
            "hoverinfo": "skip",
            "showlegend": False,
        },
        {**_line("utilisation", times, values, "--chart-1"), "hovertemplate": "%{y:.0%}<extra></extra>"},
    ]
    layout = _layout()
    layout["yaxis"] = {"tickformat": ".0%", "range": [0, 1.04], "fixedrange": True}
    shapes, notes = _rhythm(tag, times[0], times[-1] + series.step)
    if isinstance(ahead, Forecast):
        traces += _band(ahead)
    layout |= {"shapes": shapes, "annotations": notes, "showlegend": isinstance(ahead, Forecast)}
    return {"data": traces, "layout": layout}


def forecast_words(ahead: Forecast | Nothing | None) -> str:
    """Explain the basis of the forecast, or why there is none."""
    if ahead is None:
        return ""
    if isinstance(ahead, Nothing):
        return f"No forecast: {ahead.sentence}."
    return f"Forecast of the next hour: {ahead.sentence}."


def memory(lines: Iterable[ChartLine], limit: float | None) -> Figure:
    """Bytes as GB; `limit` is all that its GPUs have for it."""
    shown = [one for one in lines if known(one.series)]
    if not shown:
        return missing("No memory was measured yet.")
    peak = max(value for one in shown for value in one.series.values.tolist() if not math.isnan(value))
    unit, name = (GIGABYTE, "GB") if peak >= GIGABYTE else (GIGABYTE / 1000, "MB")
    traces = [
        {
            **_line(one.name, _times(one.series), _values(one.series, 1 / unit), one.colour),
            "line": {"color": one.colour, "width": 1.75, "dash": "dash" if number else "solid"},
            "hovertemplate": f"%{{y:.4~g}} {name} {one.name}<extra></extra>",
        }  # dashes let an equal line below be seen
        for number, one in enumerate(shown)
    ]
    layout = _layout()
    layout["yaxis"] = {"ticksuffix": f" {name}", "rangemode": "tozero", "fixedrange": True}
    layout["showlegend"] = True
    if limit and peak > 0.3 * limit:  # farther away it would flatten everything else
        layout["shapes"] = [across(limit / unit)]
        layout["annotations"] = [_label_across(limit / unit, "all that its GPUs have")]
    return {"data": traces, "layout": layout}


def power(series: Series | None) -> Figure:
    if series is None or not known(series):
        return missing("Power is measured of real GPUs while the job holds them; here nobody measures it.")
    trace = {
        **_line("power", _times(series), _values(series), "--chart-4"),
        "hovertemplate": "%{y:.0f} W<extra></extra>",
    }
    layout = _layout()
    layout["yaxis"] = {"ticksuffix": " W", "rangemode": "tozero", "fixedrange": True}
    return {"data": [trace], "layout": layout}


def _rhythm(tag: Tag | None, begin: float, end: float) -> tuple[list[object], list[object]]:
    """Lines where periods begin, and a bracket over the last whole one."""
    if tag is None or tag.period is None or tag.boundary is None or tag.period <= 0:
        return [], []
    first = max(0, math.ceil((end - tag.boundary) / tag.period) - MOST_BOUNDARIES)
    first = max(first, math.ceil((max(begin, tag.at) - tag.boundary) / tag.period))
    last = math.floor((end - tag.boundary) / tag.period)
    starts = [tag.boundary + number * tag.period for number in range(first, last + 1)]
    if len(starts) < 2:
        return [], []
    if end - begin > MOST_BOUNDARIES * tag.period:
        starts = starts[-2:]
    shapes: list[object] = [upright(at) for at in starts]
    shapes.append(
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": starts[-2],
            "x1": starts[-1],
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": "--chart-period",
            "layer": "below",
        }
    )
    label = {
        "x": (starts[-2] + starts[-1]) / 2,
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "text": f"every {period_words(tag.period)}",
    }
    return shapes, [label]


def period_words(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 10 else span(seconds)


def _band(ahead: Forecast) -> list[dict[str, object]]:
    """The median, and what nine of ten values should stay within."""
    count = len(ahead.median)
    times = [ahead.start + (number + 0.5) * ahead.step for number in range(count)]
    edge = {"type": "scatter", "mode": "lines", "x": times, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        {**edge, "y": _rounded(ahead.low), "showlegend": False, "name": "low"},
        {
            **edge,
            "y": _rounded(ahead.high),
            "fill": "tonexty",
            "fillcolor": "--chart-band",
            "name": "nine in ten",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "expected",
            "x": times,
            "y": _rounded(ahead.median),
            "line": {"color": "--chart-2", "width": 1.5, "dash": "dash"},
            "hovertemplate": "%{y:.0%} expected<extra></extra>",
        },
    ]


# ------------------------------------------------------------------------------------------------- reports


def loss(found: Curves) -> Figure:
    """Every reported figure whose name says loss, over steps if it counts them."""
    shown = [curve for curve in found.curves if "loss" in curve.name.lower()]
    return _reported(shown, "It has not reported a loss: grus.report(step=…, loss=…) does.")


def others(found: Curves) -> Figure:
    """Draw its other reported metrics, such as an accuracy."""
    known = [curve for curve in found.curves if curve.name not in BOOKKEEPING | {THROUGHPUT}]
    shown = [curve for curve in known if "loss" not in curve.name.lower() and curve.points]
    return _reported(shown[:MOST_OTHERS], "It reports nothing else.")


def throughput(found: Curves, life: Strip) -> Figure:
    """Draw its speed, with its number of GPUs behind it, so that the benefit of more GPUs is visible at
    once.
    """
    points = found.of(THROUGHPUT)
    if not points:
        return missing("Its speed is worked out of the steps that it reports: grus.report(step=…) does.")
    unit = "samples/s" if found.of(BATCH) else "steps/s"
    speed = {
        **_line(unit, [point.at for point in points], [point.value for point in points], "--chart-3"),
        "hovertemplate": f"%{{y:.4~g}} {unit}<extra></extra>",
    }
    layout = _layout()
    layout["yaxis"] = {"rangemode": "tozero", "title": {"text": unit}, "fixedrange": True}
    traces = [speed]
    if life.top:
        traces.append(_sizes(life, points))
        layout["yaxis2"] = {
            "overlaying": "y",
            "side": "right",
            "range": [0, life.top * 1.25],
            "showgrid": False,
            "title": {"text": "GPUs"},
            "fixedrange": True,
            "tickmode": "linear",
            "tick0": 0,
            "dtick": max(1, round(life.top / 4)) if life.top >= 1 else life.top,
        }
        layout["showlegend"] = True
    return {"data": traces, "layout": layout}


def _sizes(life: Strip, points: Sequence[Point]) -> dict[str, object]:
    """GPUs held over the time in which it reported."""
    times: list[float] = []
    sizes: list[float | int | None] = []
    for stretch in life.stretches:
        if stretch.end < points[0].at or stretch.begin > points[-1].at:
            continue
        times += [max(stretch.begin, points[0].at), min(stretch.end, points[-1].at)]
        sizes += [stretch.gpus, stretch.gpus]
    return {
        **_line("GPUs", times, sizes, "--chart-mark"),
        "mode": "lines",
        "yaxis": "y2",
        "line": {"color": "--chart-mark", "width": 1, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "--chart-period",
        "hovertemplate": "%{y} GPUs<extra></extra>",
    }


def _reported(curves: Sequence[Curve], empty: str) -> Figure:
    shown = [curve for curve in curves if curve.points]
    if not shown:
        return missing(empty)
    by_step = all(point.step is not None for curve in shown for point in curve.points)
    traces = []
    for number, curve in enumerate(shown):
        x = [point.step if by_step else point.at for point in curve.points]
        trace = _line(curve.name, *_parted(x, curve.points), f"--chart-{number % 6 + 1}")
        traces.append({**trace, "hovertemplate": f"%{{y:.4~g}} {curve.name}<extra></extra>"})
    layout = _layout()
    if by_step:
        layout["xaxis"] = {"title": {"text": "step"}, "rangemode": "tozero"}
    layout["yaxis"] = {"fixedrange": True, "tickformat": "~g"}
    layout["showlegend"] = True
    return {"data": traces, "layout": layout}


def _parted(
    x: Sequence[float | None], points: Sequence[Point]
) -> tuple[list[float | None], list[float | None]]:
    """Leave a gap where a new attempt begins: it may go back to its last checkpoint."""
    xs: list[float | None] = list(x[:1])
    ys: list[float | None] = [point.value for point in points[:1]]
    for place, (before, point) in zip(x[1:], pairwise(points), strict=True):
        if point.attempt != before.attempt:
            xs.append(None)
            ys.append(None)
        xs.append(place)
        ys.append(point.value)
    return xs, ys


# ------------------------------------------------------------------------------------------------- common


def _layout() -> dict[str, object]:
    return {
        "height": HEIGHT,
        "margin": {"l": 52, "r": 14, "t": 26, "b": 34},
        "xaxis": {"type": "date"},
        "hovermode": "x",
        "showlegend": False,
        "legend": LEGEND,
    }


def _line(name: str, x: Sequence[object], y: Sequence[object], colour: str) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "lines" if len(y) > FEW else "lines+markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 1.75},
        "connectgaps": False,
    }


def across(value: float) -> dict[str, object]:
    line = {"color": "--chart-mark", "width": 1, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}


def upright(at: float) -> dict[str, object]:
    line = {"color": "--chart-mark", "width": 1, "dash": "dot"}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at, "line": line}


def _label_across(value: float, text: str) -> dict[str, object]:
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": value, "yanchor": "bottom"}
    return {**place, "showarrow": False, "text": text}


def known(series: Series) -> bool:
    return any(not math.isnan(value) for value in series.values.tolist())


def _times(series: Series) -> list[float]:
    return [round(series.start + (number + 0.5) * series.step, 3) for number in range(len(series.values))]


def _values(series: Series, scale: float = 1.0) -> list[float | None]:
    return [None if math.isnan(value) else round(value * scale, 5) for value in series.values.tolist()]


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), 4) for value in values]
