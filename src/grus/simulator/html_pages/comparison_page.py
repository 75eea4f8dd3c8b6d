"""A comparison as one HTML file: sentences, the table of figures, and plots. Nothing is loaded from anywhere.

Plotly's script is passed in by the caller. The plots are plain values: same comparison, same bytes.
"""

from collections.abc import Sequence
from html import escape

from grus.simulator import result_summary
from grus.simulator.html_pages import page_skeleton
from grus.simulator.html_pages.charts import Bar, Drawn
from grus.simulator.html_pages.page_skeleton import COLOURS, Figure
from grus.simulator.whatif_scenarios import Side, WhatIfComparison

SIDES = ("#2f6fde", "#d9730d", "#8a8f98")
"""Colors of the sides: distinguishable in both themes, and without distinguishing red from green."""
FINE = 128
"""GPUs up to which bars are parted by a line; in larger pools it would be as thick as they are."""


def page(comparison: WhatIfComparison, script: str, title: str = "Simulation") -> str:
    """The whole file. `script` is Plotly's."""
    sentences = (result_summary.answer(comparison), result_summary.against_static(comparison))
    parts = [page_skeleton.answer(sentence) for sentence in sentences if sentence]
    for name, (heading, note, figure) in figures(comparison).items():
        parts += [
            page_skeleton.heading(heading),
            *([page_skeleton.note(note)] if note else []),
            page_skeleton.plot(name, figure),
        ]
    parts += [
        page_skeleton.heading("Figures"),
        page_skeleton.note(_worlds(comparison)),
        page_skeleton.table(*result_summary.table(comparison)),
    ]
    for side in comparison.sides:
        if len(side.outcomes[0].queues) > 1:
            parts.append(page_skeleton.heading(f"Queues: {side.name}"))
            parts.append(page_skeleton.table(*result_summary.queue_table(side.outcomes[0])))
    return page_skeleton.sheet(title, parts, script)


def figures(comparison: WhatIfComparison) -> dict[str, tuple[str, str, Figure]]:
    """Return the figures by name: heading, note, and the figure itself."""
    drawn = [(side, side.drawn) for side in comparison.sides if side.drawn is not None]
    if not drawn:
        return {}
    found: dict[str, tuple[str, str, Figure]] = {
        "use": (
            "Use of the pool over time",
            "GPUs held, as part of the pool; below, jobs that wait.",
            use(drawn),
        ),
        "completion": (
            "Completion times",
            "Part of the jobs that were done within a time of their submission.",
            completion(drawn),
        ),
    }
    for number, (side, one) in enumerate(drawn):
        note = "Each bar is a job; its thickness is the number of GPUs that it held. What is empty was idle."
        if not one.whole:
            note += " Of so many jobs only the busiest stretch is shown."
        found[f"jobs-{number}"] = (f"Jobs on the pool: {side.name}", note, jobs(one))
    return found


def use(drawn: Sequence[tuple[Side, Drawn]]) -> Figure:
    size, unit = page_skeleton.unit(max(one.times[-1] if one.times else 0.0 for _, one in drawn))
    traces: list[object] = []
    for number, (side, one) in enumerate(drawn):
        shared = {
            "type": "scatter",
            "mode": "lines",
            "x": page_skeleton.scaled(one.times, size),
            "name": escape(side.name),
            "legendgroup": str(number),
            "line": {"color": page_skeleton.colour(SIDES, number), "width": 1.5, "shape": "hv"},
        }
        traces.append({**shared, "y": list(one.used), "hovertemplate": "%{y:.0%} used"})
        traces.append(
            {
                **shared,
                "y": list(one.waiting),
                "yaxis": "y2",
                "showlegend": False,
                "hovertemplate": "%{y:.1f} wait",
            }
        )
    layout = {
        **page_skeleton.layout(480),
        "xaxis": {"title": {"text": unit}, "anchor": "y2"},
        "yaxis": {"title": {"text": "used"}, "tickformat": ".0%", "rangemode": "tozero", "domain": [0.42, 1]},
        "yaxis2": {"title": {"text": "waiting"}, "rangemode": "tozero", "domain": [0, 0.34]},
        "hovermode": "x",
    }
    return {"data": traces, "layout": layout}


def completion(drawn: Sequence[tuple[Side, Drawn]]) -> Figure:
    middles = [one.completions[len(one.completions) // 2] for _, one in drawn if one.completions]
    size, unit = page_skeleton.unit(max(middles, default=0.0))
    traces = []
    for number, (side, one) in enumerate(drawn):
        count = len(one.completions)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": page_skeleton.scaled(one.completions, size),
                "y": [round((place + 1) / count, 5) for place in range(count)],
                "name": escape(side.name),
                "line": {"color": page_skeleton.colour(SIDES, number), "width": 2, "shape": "hv"},
                "hovertemplate": f"%{{y:.0%}} within %{{x:.3g}} {unit}",
            }
        )
    layout = {
        **page_skeleton.layout(400),
        "xaxis": {"title": {"text": f"{unit} from submission to the end"}, "type": "log"},
        "yaxis": {"title": {"text": "jobs"}, "tickformat": ".0%", "range": [0, 1.02]},
    }
    return {"data": traces, "layout": layout}


def jobs(one: Drawn) -> Figure:
    """Draw bars whose thickness is GPUs, one color per queue."""
    size, unit = page_skeleton.unit(one.shown[1] - one.shown[0])
    by_queue: dict[str, list[Bar]] = {}
    for bar in one.bars:
        by_queue.setdefault(bar.queue, []).append(bar)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": escape(queue),
            "base": page_skeleton.scaled([bar.begin for bar in bars], size),
            "x": page_skeleton.scaled([bar.end - bar.begin for bar in bars], size),
            "y": [round(bar.low + bar.gpus / 2, 4) for bar in bars],
            "width": [bar.gpus for bar in bars],
            "customdata": [[escape(bar.job), bar.gpus] for bar in bars],
            "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]}} GPUs<br>from %{{base:.2f}} {unit}",
            "marker": {
                "color": page_skeleton.colour(COLOURS, number),
                "line": {"width": 0.6 if one.gpus <= FINE else 0},
            },
        }
        for number, (queue, bars) in enumerate(sorted(by_queue.items()))
    ]
    layout = {
        **page_skeleton.layout(460),
        "barmode": "overlay",
        "xaxis": {"title": {"text": unit}, "range": [one.shown[0] / size, one.shown[1] / size]},
        "yaxis": {"title": {"text": "GPUs"}, "range": [0, one.gpus]},
    }
    return {"data": traces, "layout": layout}


def _worlds(comparison: WhatIfComparison) -> str:
    seeds = len(comparison.sides[0].outcomes)
    return "one world, the trace as it is" if seeds == 1 else f"means of {seeds} worlds with 95 % intervals"
