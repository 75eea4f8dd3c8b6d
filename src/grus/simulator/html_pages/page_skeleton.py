"""Common parts of all pages that are one HTML file: style, tables, figures, and the script that draws them.

Such a page loads nothing from anywhere. Plots are drawn by Plotly's script, which the caller passes in and
which is written into the page; figures are plain values: same figures, same bytes. Light or dark is the
reader's choice, made by the browser.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape

Figure = dict[str, object]
"""A figure as Plotly knows it: `data` and `layout`."""

COLOURS = (
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
"""They are distinguishable in both themes, and adjacent ones without distinguishing red from green."""
UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))

STYLE = """
:root { color-scheme: light dark;
  --text: #1c2024; --soft: #6b7280; --line: #d9dce1; --back: #ffffff; --lift: #f5f6f8 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --soft: #9aa1ab; --line: #363b42; --back: #15181c; --lift: #1e2227 }
}
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.5rem; margin: 0 0 .5rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem }
p.answer { font-size: 1.1rem; background: var(--lift); padding: .8rem 1rem; border-radius: .5rem;
  margin: .6rem 0 }
p.note, caption { color: var(--soft); font-size: .9rem; margin: .2rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.words th, .words td { text-align: left; vertical-align: top; white-space: normal; overflow-wrap: anywhere }
.words td:first-child { white-space: nowrap }
thead th { color: var(--soft); font-weight: 600 }
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


def sheet(title: str, parts: Sequence[str], script: str, style: str = "") -> str:
    """The whole file: its title, the parts (HTML already), and Plotly's script behind them; `style` is laid
    over the usual one."""
    return (
        "\n".join(
            [
                "<!doctype html>",
                '<html lang="en"><head><meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{escape(title)}</title>",
                '<link rel="icon" href="data:,">',  # no icon, and no request for one
                f"<style>{STYLE}{style}</style></head><body>",
                f"<h1>{escape(title)}</h1>",
                *parts,
                f"<script>{_safe_script(script)}</script>",
                f"<script>{DRAW}</script>",
                "</body></html>",
            ]
        )
        + "\n"
    )


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def answer(text: str) -> str:
    """A sentence that stands out."""
    return f'<p class="answer">{escape(text)}</p>'


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def plot(name: str, figure: Mapping[str, object]) -> str:
    """Return the element in which the figure is drawn, and the figure; `name` is unique in the page."""
    return (
        f'<div class="plot" id="{name}"></div>\n'
        f'<script class="figure" type="application/json" data-plot="{name}">{_json(figure)}</script>'
    )


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False) -> str:
    """Return a table of figures, in columns; or of words, which are broken into lines."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    kind = ' class="words"' if words else ""
    inside = f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody>"
    return f'<div class="wide"><table{kind}>{inside}</table></div>'


def _json(figure: Mapping[str, object]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(figure, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _safe_script(script: str) -> str:
    """A script's own mention of its end tag must not end it."""
    return script.replace("</script", "<\\/script")


def layout(height: int) -> dict[str, object]:
    """Return the common layout of all figures."""
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    return {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "legend": legend,
        "showlegend": True,
    }


def unit(longest: float) -> tuple[float, str]:
    """Seconds of the unit in which so long a time is read best, and its name."""
    return next(((size, name) for least, size, name in UNITS if longest >= least), (1.0, "seconds"))


def scaled(times: Sequence[float], size: float) -> list[float]:
    return [round(at / size, 6) for at in times]


def colour(colours: Sequence[str], number: int) -> str:
    return colours[number % len(colours)]
