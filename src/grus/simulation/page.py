"""A comparison as one HTML file: sentences, the table of figures, and plots. Nothing is loaded from anywhere.

The plots are drawn by Plotly's script, which the caller passes in and which is written into the page. They
are plain values here: same comparison, same bytes. Light or dark is the reader's choice, made by the browser.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape

from grus.simulation import answers
from grus.simulation.drawing import Bar, Drawn
from grus.simulation.what_if import Comparison, Side

Figure = dict[str, object]
"""A figure as Plotly knows it: `data` and `layout`."""

SIDES = ("#2f6fde", "#d9730d", "#8a8f98")
"""Colours of the sides: they can be told apart in both lights, and without telling red from green."""
QUEUES = (
    "#2f6fde",
    "#d9730d",
    "#1f9d8a",
    "#b04fc4",
    "#c9a227",
    "#d6496c",
    "#6b8e23",
    "#5b5fc7",
    "#8c6d4f",
    "#3a9ad9",
)
FINE = 128
"""GPUs up to which bars are parted by a line; in larger pools it would be as thick as they are."""
UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))

STYLE = """
:root { color-scheme: light dark;
  --text: #1c2024; --soft: #6b7280; --line: #d9dce1; --back: #ffffff; --lift: #f5f6f8 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --soft: #9aa1ab; --line: #363b42; --back: #15181c; --lift: #1e2227 }
}
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .5rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem }
p.answer { font-size: 1.1rem; background: var(--lift); padding: .8rem 1rem; border-radius: .5rem;
  margin: .6rem 0 }
p.note, caption { color: var(--soft); font-size: .9rem; margin: .2rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap }
th:first-child, td:first-child { text-align: left } thead th { color: var(--soft); font-weight: 600 }
.plot { min-height: 22rem; margin: .3rem 0 1rem }
"""

DRAW = """
// The buttons by name: the usual ones offer to send the chart to somebody else's server.
const buttons = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]];
const settings = { responsive: true, displaylogo: false, modeBarButtons: buttons };
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), linecolor: of("--line") };
  for (const node of document.querySelectorAll("script.figure")) {
    const figure = JSON.parse(node.textContent), layout = figure.layout;
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: of("--text"), family: "system-ui, sans-serif" };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: of("--soft"), activecolor: of("--text") };
    for (const trace of figure.data) if (trace.type === "bar") trace.marker.line.color = of("--back");
    layout.hoverlabel = { bgcolor: of("--lift"), font: { color: of("--text") } };
    for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name)) Object.assign(layout[name], axis);
    Plotly.react(node.dataset.plot, figure.data, layout, settings);
  }
}
dark.addEventListener("change", paint);
paint();
"""


def page(comparison: Comparison, script: str, title: str = "Simulation") -> str:
    """The whole file. `script` is Plotly's."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        '<link rel="icon" href="data:,">',  # none, and no question for one
        f"<style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
    ]
    sentences = (answers.answer(comparison), answers.against_static(comparison))
    parts += [f'<p class="answer">{escape(sentence)}</p>' for sentence in sentences if sentence]
    for name, (heading, note, figure) in figures(comparison).items():
        parts.append(f"<h2>{escape(heading)}</h2>")
        parts += [f'<p class="note">{escape(note)}</p>'] if note else []
        parts.append(f'<div class="plot" id="{name}"></div>')
        parts.append(
            f'<script class="figure" type="application/json" data-plot="{name}">{_json(figure)}</script>'
        )
    parts += ["<h2>Figures</h2>", _notes(comparison), _table(*answers.table(comparison))]
    for side in comparison.sides:
        if len(side.outcomes[0].queues) > 1:
            parts += [f"<h2>Queues: {escape(side.name)}</h2>", _table(*answers.queue_table(side.outcomes[0]))]
    parts += [f"<script>{_safe_script(script)}</script>", f"<script>{DRAW}</script>", "</body></html>"]
    return "\n".join(parts) + "\n"


def figures(comparison: Comparison) -> dict[str, tuple[str, str, Figure]]:
    """By name: heading, note, and the figure itself."""
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
    size, unit = _unit(max(one.times[-1] if one.times else 0.0 for _, one in drawn))
    traces: list[object] = []
    for number, (side, one) in enumerate(drawn):
        shared = {
            "type": "scatter",
            "mode": "lines",
            "x": _scaled(one.times, size),
            "name": escape(side.name),
            "legendgroup": str(number),
            "line": {"color": _colour(SIDES, number), "width": 1.5, "shape": "hv"},
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
        **_layout(480),
        "xaxis": {"title": {"text": unit}, "anchor": "y2"},
        "yaxis": {"title": {"text": "used"}, "tickformat": ".0%", "rangemode": "tozero", "domain": [0.42, 1]},
        "yaxis2": {"title": {"text": "waiting"}, "rangemode": "tozero", "domain": [0, 0.34]},
        "hovermode": "x",
    }
    return {"data": traces, "layout": layout}


def completion(drawn: Sequence[tuple[Side, Drawn]]) -> Figure:
    middles = [one.completions[len(one.completions) // 2] for _, one in drawn if one.completions]
    size, unit = _unit(max(middles, default=0.0))
    traces = []
    for number, (side, one) in enumerate(drawn):
        count = len(one.completions)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": _scaled(one.completions, size),
                "y": [round((place + 1) / count, 5) for place in range(count)],
                "name": escape(side.name),
                "line": {"color": _colour(SIDES, number), "width": 2, "shape": "hv"},
                "hovertemplate": f"%{{y:.0%}} within %{{x:.3g}} {unit}",
            }
        )
    layout = {
        **_layout(400),
        "xaxis": {"title": {"text": f"{unit} from submission to the end"}, "type": "log"},
        "yaxis": {"title": {"text": "jobs"}, "tickformat": ".0%", "range": [0, 1.02]},
    }
    return {"data": traces, "layout": layout}


def jobs(one: Drawn) -> Figure:
    """Bars whose thickness is GPUs, one colour a queue."""
    size, unit = _unit(one.shown[1] - one.shown[0])
    by_queue: dict[str, list[Bar]] = {}
    for bar in one.bars:
        by_queue.setdefault(bar.queue, []).append(bar)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": escape(queue),
            "base": _scaled([bar.begin for bar in bars], size),
            "x": _scaled([bar.end - bar.begin for bar in bars], size),
            "y": [round(bar.low + bar.gpus / 2, 4) for bar in bars],
            "width": [bar.gpus for bar in bars],
            "customdata": [[escape(bar.job), bar.gpus] for bar in bars],
            "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]}} GPUs<br>from %{{base:.2f}} {unit}",
            "marker": {
                "color": _colour(QUEUES, number),
                "line": {"width": 0.6 if one.gpus <= FINE else 0},
            },
        }
        for number, (queue, bars) in enumerate(sorted(by_queue.items()))
    ]
    layout = {
        **_layout(460),
        "barmode": "overlay",
        "xaxis": {"title": {"text": unit}, "range": [one.shown[0] / size, one.shown[1] / size]},
        "yaxis": {"title": {"text": "GPUs"}, "range": [0, one.gpus]},
    }
    return {"data": traces, "layout": layout}


def _layout(height: int) -> dict[str, object]:
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    return {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "legend": legend,
        "showlegend": True,
    }


def _unit(longest: float) -> tuple[float, str]:
    """Seconds of the unit in which so long a time is read best, and its name."""
    return next(((size, name) for least, size, name in UNITS if longest >= least), (1.0, "seconds"))


def _scaled(times: Sequence[float], size: float) -> list[float]:
    return [round(at / size, 6) for at in times]


def _colour(colours: Sequence[str], number: int) -> str:
    return colours[number % len(colours)]


def _notes(comparison: Comparison) -> str:
    seeds = len(comparison.sides[0].outcomes)
    worlds = "one world, the trace as it is" if seeds == 1 else f"means of {seeds} worlds with 95 % intervals"
    return f'<p class="note">{escape(worlds)}</p>'


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _json(figure: Mapping[str, object]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(figure, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _safe_script(script: str) -> str:
    """A script's own mention of its end tag must not end it."""
    return script.replace("</script", "<\\/script")
