"""Sheets: the presentation of a comparison: sentences, tables, plots.

A sheet is a value. The command line prints its tables, `page` makes one HTML file of it, and `data` is the
same for programs.
"""

from dataclasses import dataclass, field

from grus.simulator.html_pages import page_skeleton as html
from grus.simulator.html_pages.page_skeleton import Figure

NOTHING = "–"
"""Marks a value that was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: bool = False
    """True if its cells are sentences and not figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    name: str
    """Unique in the sheet; letters and dashes."""
    heading: str
    figure: Figure
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    title: str
    answers: tuple[str, ...]
    """The results in sentences; objections come first."""
    sections: tuple[Section, ...]
    plots: tuple[Plot, ...] = ()
    data: dict[str, object] = field(default_factory=dict)


def page(made: Sheet, script: str) -> str:
    """The whole file; `script` is Plotly's."""
    parts = [html.answer(sentence) for sentence in made.answers]
    for plot in made.plots:
        parts += [html.heading(plot.heading), *_note(plot.note), html.plot(plot.name, plot.figure)]
    for section in made.sections:
        parts += [
            html.heading(section.heading),
            *_note(section.note),
            html.table(section.columns, section.rows, words=section.words),
        ]
    return html.sheet(made.title, parts, script)


def _note(text: str) -> list[str]:
    return [html.note(text)] if text else []


def shown(value: float | None, unit: str) -> str:
    """A figure with its unit, in three digits; a dash for none."""
    if value is None:
        return NOTHING
    if unit in ("bytes", "bytes/s"):
        return _bytes(value) + unit.removeprefix("bytes")
    if unit == "part":
        return f"{value:.1%}"
    return f"{digits(value)} {unit}" if unit and not unit.startswith("1/") else digits(value)


def digits(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3g}" if abs(value) >= 0.0001 else f"{value:.1e}"


def _bytes(value: float) -> str:
    left = value
    for unit in ("B", "KiB", "MiB"):
        if abs(left) < 1024:
            return f"{digits(left)} {unit}"
        left /= 1024
    return f"{digits(left)} GiB"
