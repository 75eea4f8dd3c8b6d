"""A line of the table of trust, and the tables as docs/reliability.md has them, each between its marks."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.trust.counting import broken_by
from tests.trust.ledger import Run, machine
from tests.trust.sources import ROOT

PAGE = ROOT / "docs" / "reliability.md"
MARKS = {
    "short": ("<!-- trust -->", "<!-- end trust -->"),
    "long": ("<!-- trust long -->", "<!-- end trust long -->"),
}


@dataclass(frozen=True, slots=True)
class Line:
    claim: str
    value: object
    aim: str
    verdict: str
    """kept, kept so far, broken, not audited, not run (since one broke), or what went wrong."""
    tried: str
    seconds: float
    seen: str = ""
    """Further figures of the part, in its first line."""
    reached: float = 0
    """How much was tried by all runs that count."""
    wanted: float | None = None
    """How much a long proof wants."""
    here: float = 0
    """How much of it was tried on this state of the sources."""
    states: int = 1
    """On how many states."""


def write(size: str, block: str, page: Path = PAGE) -> None:
    """Put the block in place of the one that is there."""
    begin, end = MARKS[size]
    text = page.read_text(encoding="utf-8")
    marked = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    if not marked.search(text):
        raise ValueError(f"{page.name} has no place for the {size} table ({begin} … {end})")
    page.write_text(marked.sub(lambda _: f"{begin}\n{block}\n{end}", text), encoding="utf-8")


def short_block(table: Sequence[Line]) -> str:
    head = f"{today()} · {machine()} · `make trust WRITE=1`"
    cells = [(one.claim, shown(one.value), one.aim, one.verdict, one.tried) for one in table]
    return "\n".join([head, "", *in_rows(("promise", "figure", "aim", "verdict", "tried"), cells)])


def long_block(table: Sequence[Line], counted: Sequence[Run], broken: Sequence[Run]) -> str:
    """With where and when the runs were made, and those that do not count because they broke a promise."""
    dates = sorted(run.date[:10] for run in counted)
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "no date"
    machines = sorted({run.machine for run in counted if run.machine})
    head = " · ".join([today(), f"runs of {when}", *machines, "`make trust SIZE=long WRITE=1`"])
    cells = [(one.claim, shown(one.value), one.aim, one.verdict, one.tried, one.seen) for one in table]
    rows = in_rows(("promise", "figure", "aim", "verdict", "tried", "seen"), cells)
    return "\n".join([head, "", *rows, *told_of(broken)])


def told_of(broken: Sequence[Run]) -> list[str]:
    """What is to be known of the runs that broke a promise."""
    if not broken:
        return []
    head = "Runs that broke a promise. They do not count, and the count of their proof began anew after them:"
    return ["", head, "", *(f"- {in_words(run)}" for run in broken)]


def in_words(run: Run) -> str:
    what = ", ".join(f"{one.claim}: {shown(run.figures.get(one.figure))}" for one in broken_by(run))
    return f"{run.date[:10]}, {run.part}, state {run.state}: {what}" + (f" ({run.note})" if run.note else "")


def in_rows(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]


def today() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int | float) else str(value)
