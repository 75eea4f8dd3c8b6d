"""Charts of a report as plain values, for its page and for the dashboard alike: same report, same bytes.

A figure is what Plotly knows as `data` and `layout`. Names that users gave are escaped: Plotly takes them for
HTML. Colors keep their meaning from chart to chart.
"""

from collections.abc import Sequence
from html import escape
from math import isclose

from grus.api.scaling_wire import ElasticJobOut, SpeedOut, SpeedupOut, SplitOut, SplitSideOut, SupplyOut
from grus.api.wire_types.report import HoursOut
from grus.api.wire_types.timestamps import parse_time
from grus.simulator.html_pages.page_skeleton import COLOURS, Figure, colour, layout, scaled, unit

BLUE, ORANGE, TEAL, PURPLE, YELLOW, RED = COLOURS[:6]
GREY, PALE = "#8a8f98", "#b9bfc9"
BAND = "rgba(47, 111, 222, 0.16)"
NONE = 0.0

POOL = (
    ("allocated", "held by jobs", BLUE),
    ("waiting", "free while jobs waited", ORANGE),
    ("fragmentation", "free in pieces that nobody could use", RED),
    ("unwanted", "free, nobody waited", PALE),
)
"""Uses of the pool's hours: field, words, color."""
HELD = (
    ("busy", "busy", TEAL),
    ("idle", "idle while held", YELLOW),
    ("over_asking", "asked for, never used", PURPLE),
    ("unmeasured", "not measured", GREY),
)
"""… and of those that jobs hold."""
MOST_COURSES = 8
"""Jobs whose sizes are drawn."""
SIDES = {"measured": "as it was", "present": "one pool, simulated", "static split": "static split, simulated"}
"""The sides of before and after, for people."""


# -------------------------------------------------------------------------------------------------- hours


def parts(hours: HoursOut) -> dict[str, float | None]:
    """Return the hours of each use, by field; None if they are unknown."""
    held = hours.held
    known = held.measured > 0
    return {
        "allocated": held.allocated,
        "waiting": hours.waiting,
        "fragmentation": hours.fragmentation,
        "unwanted": hours.unwanted,
        "busy": held.busy if known else None,
        "idle": held.idle if known else None,
        "over_asking": held.over_asking if known else None,
        "unmeasured": max(0.0, held.allocated - held.measured),
    }


def where(hours: HoursOut, unit: tuple[str, float] = ("GPU-hours", 1.0)) -> Figure:
    """Two bars: what became of the pool's hours, and of those that jobs held; in that unit, so many of which
    are an hour."""
    name, per_hour = unit
    found = {field: None if value is None else value * per_hour for field, value in parts(hours).items()}
    traces = [
        _bar(words, row, found[field] or NONE, name, tint)
        for row, fields in (("the pool", POOL), ("held by jobs", HELD))
        for field, words, tint in fields
        if found[field]
    ]
    shape = {
        **layout(260),
        "barmode": "stack",
        "xaxis": {"rangemode": "tozero", "title": {"text": name, "standoff": 4}},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "legend": {"orientation": "h", "y": -0.5, "yanchor": "top", "x": 0, "traceorder": "normal"},
        "margin": {"l": 20, "r": 20, "t": 10, "b": 20},
    }
    return {"data": traces, "layout": shape}


def _bar(words: str, row: str, value: float, name: str, tint: str) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": words,
        "y": [row],
        "x": [round(value, 6)],
        "width": 0.62,
        "marker": {"color": tint, "line": {"width": 1}},
        "hovertemplate": f"%{{x:.3g}} {name} {words}<extra></extra>",
    }


def over_time(timeline: Sequence[HoursOut]) -> Figure:
    """GPUs in each part of the time by what they did, and what was wanted, as means of the part."""
    spans = [(parse_time(part.until) - parse_time(part.since)) / 3600 for part in timeline]
    found = [parts(part) for part in timeline]
    starts = [part.since for part in timeline]
    traces: list[Figure] = []
    for field, words, tint in (*HELD, *POOL[1:]):
        values = [
            round((one[field] or NONE) / span, 5) if span > 0 else NONE
            for one, span in zip(found, spans, strict=True)
        ]
        if any(values):
            traces.append(
                {
                    "type": "bar",
                    "name": words,
                    "x": starts,
                    "y": values,
                    "width": [span * 3600_000 for span in spans],
                    "offset": 0,
                    "marker": {"color": tint, "line": {"width": 0}},
                    "hovertemplate": f"%{{y:.2f}} GPUs {words}<extra></extra>",
                }
            )
    wanted = [
        round(part.demand / span, 5) if span > 0 else NONE for part, span in zip(timeline, spans, strict=True)
    ]
    edges, steps = [*starts, timeline[-1].until], [*wanted, wanted[-1]]
    traces.append(_line("wanted", edges, steps, GREY, dash="dot", shape="hv"))
    shape = {
        **layout(360),
        "barmode": "stack",
        "xaxis": {"type": "date"},
        "yaxis": {"title": {"text": "GPUs"}, "rangemode": "tozero"},
    }
    return {"data": traces, "layout": shape}


# -------------------------------------------------------------------------------------------- scalability


def speedup(one: SpeedupOut) -> Figure:
    """Above, how many times as fast; below, how much of full advantage that is."""
    base = one.sizes[0].gpus
    most = max([*(size.gpus for size in one.sizes), *(point.gpus for point in one.fit)])
    traces: list[Figure] = [
        _line("full advantage", [base, most], [1.0, most / base], GREY, dash="dash"),
        *_fit(one),
        *_measured(one.sizes),
        {
            "type": "bar",
            "name": "efficiency",
            "x": [size.gpus for size in one.sizes],
            "y": [round(size.efficiency, 5) for size in one.sizes],
            "yaxis": "y2",
            "width": 0.5 if most <= 16 else most / 40,
            "showlegend": False,
            "text": [f"{size.efficiency:.0%}" for size in one.sizes],
            "textposition": "auto",
            "marker": {"color": TEAL, "line": {"width": 0}},
            "hovertemplate": "%{y:.0%} of full advantage on %{x} GPUs<extra></extra>",
        },
    ]
    ticks = {"tickmode": "array", "tickvals": [*range(base, most + 1)]} if most - base < 16 else {}
    shape = {
        **layout(440),
        "xaxis": {
            "title": {"text": "GPUs"},
            "anchor": "y2",
            "range": [base - 0.6, most + 0.6],
            **ticks,
        },
        "yaxis": {
            "title": {"text": f"times as fast as on {base}"},
            "rangemode": "tozero",
            "domain": [0.36, 1],
        },
        "yaxis2": {
            "title": {"text": "efficiency"},
            "tickformat": ".0%",
            "rangemode": "tozero",
            "range": [0, max(1.1, *(size.efficiency * 1.1 for size in one.sizes))],
            "domain": [0, 0.26],
        },
    }
    return {"data": traces, "layout": shape}


def _fit(one: SpeedupOut) -> list[Figure]:
    if not one.fit:
        return []
    sizes = [point.gpus for point in one.fit]
    low, high = ([round(getattr(point, edge), 5) for point in one.fit] for edge in ("low", "high"))
    edge = {"type": "scatter", "mode": "lines", "x": sizes, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        {**edge, "y": low, "showlegend": False},
        {
            **edge,
            "y": high,
            "fill": "tonexty",
            "fillcolor": BAND,
            "name": "within one standard deviation",
        },
        _line("fit", sizes, [round(point.speedup, 5) for point in one.fit], BLUE),
    ]


def _measured(sizes: Sequence[SpeedOut]) -> list[Figure]:
    """Sizes that ran in the time that is looked at are filled, those of earlier runs are open."""
    kinds = (("measured", "circle", True), ("earlier runs", "circle-open", False))
    found: list[Figure] = []
    for words, symbol, fresh in kinds:
        mine = [size for size in sizes if (size.steps is not None) is fresh]
        if mine:
            found.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": words,
                    "x": [size.gpus for size in mine],
                    "y": [round(size.speedup, 5) for size in mine],
                    "marker": {"color": ORANGE, "size": 11, "symbol": symbol, "line": {"width": 2}},
                    "hovertemplate": f"%{{y:.2f}} times as fast on %{{x}} GPUs ({words})<extra></extra>",
                }
            )
    return found


# --------------------------------------------------------------------------------------------- elasticity


def supply(one: SupplyOut) -> Figure:
    """Draw the demand, the allocation, and the capacity."""
    size, spoken = unit(one.step * len(one.held))
    times = scaled([one.step * (place + 0.5) for place in range(len(one.held))], size)
    held = _line("held", times, [*one.held], BLUE) | {"fill": "tozeroy", "fillcolor": BAND}
    traces = [
        held,
        _line("wanted", times, [*one.demand], ORANGE),
        _line("there", times, [*one.capacity], GREY, dash="dash"),
    ]
    shape = {
        **layout(340),
        "xaxis": {"title": {"text": f"{spoken} since {one.start[:16].replace('T', ' ')} UTC"}},
        "yaxis": {"title": {"text": "GPUs"}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }
    return {"data": traces, "layout": shape}


def courses(jobs: Sequence[ElasticJobOut], until: str) -> Figure:
    """GPUs that computed together over time, of the first jobs."""
    drawn = jobs[:MOST_COURSES]
    end = parse_time(until)
    begin = min((parse_time(point.at) for job in drawn for point in job.course), default=end)
    size, spoken = unit(end - begin)
    traces = []
    for number, job in enumerate(drawn):
        times = [parse_time(point.at) - begin for point in job.course]
        values = [float(point.gpus) for point in job.course]
        if values and values[-1] > 0:
            times, values = [*times, end - begin], [*values, values[-1]]
        traces.append(
            _line(escape(job.name), scaled(times, size), values, colour(COLOURS, number), shape="hv")
        )
    shape = {
        **layout(320),
        "xaxis": {"title": {"text": spoken}},
        "yaxis": {"title": {"text": "GPUs at work"}, "rangemode": "tozero"},
    }
    return {"data": traces, "layout": shape}


# ------------------------------------------------------------------------------------- before and after


def before_after(one: SplitOut) -> Figure:
    """Mean completion of the jobs, as the time that they waited and the time that they had GPUs."""
    size, spoken = unit(max(side.completion_mean for side in one.sides))
    rows = [SIDES.get(side.name, side.name) for side in one.sides]
    pieces = (("with GPUs", TEAL, _ran), ("waiting", ORANGE, lambda side: side.wait_mean))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": words,
            "y": rows,
            "x": scaled([piece(side) for side in one.sides], size),
            "marker": {"color": tint, "line": {"width": 1}},
            "hovertemplate": f"%{{x:.3g}} {spoken} {words}<extra></extra>",
        }
        for words, tint, piece in pieces
    ]
    shape = {
        **layout(280),
        "barmode": "stack",
        "xaxis": {"title": {"text": f"{spoken} from submission to the end, mean"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True},
    }
    return {"data": traces, "layout": shape}


def _ran(side: SplitSideOut) -> float:
    left = side.completion_mean - side.wait_mean
    return 0.0 if isclose(left, 0.0, abs_tol=1e-9) else left


def _line(
    name: str,
    x: Sequence[float | str],
    y: Sequence[float | None],
    tint: str,
    *,
    dash: str = "solid",
    shape: str = "linear",
) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [*x],
        "y": [*y],
        "line": {"color": tint, "width": 2, "dash": dash, "shape": shape},
        "hovertemplate": f"%{{y:.3g}} {name}<extra></extra>",
    }
