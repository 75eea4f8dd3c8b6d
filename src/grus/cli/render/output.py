"""Output of results: tables for people, JSON for programs, errors as a few clear lines on stderr.

It does not know the server, and imports rich only for a terminal: `--help` and pipes stay quick. Times are
local here; in JSON they are as the API sent them (RFC 3339, UTC).
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.escape import tamed, tamed_json, tamed_lines, tamed_log
from grus.model.errors import BadInput, GrusError
from grus.model.texts.formatting import number as number
from grus.model.texts.formatting import progress as progress
from grus.model.texts.formatting import size as size
from grus.model.texts.formatting import span as span

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


FORMAT = "grus.format"
"""Key of the chosen format in the command's context, so that errors can follow it."""


def _remember(context: typer.Context, chosen: Format) -> Format:
    context.meta[FORMAT] = chosen
    return chosen


Output = Annotated[
    Format,
    typer.Option("-o", "--output", help="How to print: for people or for programs.", callback=_remember),
]
"""The `-o` of every verb."""

STYLES = {
    "pending": "yellow",
    "starting": "cyan",
    "running": "green",
    "pausing": "magenta",
    "paused": "magenta",
    "succeeded": "bold green",
    "failed": "bold red",
    "stopped": "dim",
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
    "healthy": "green",
    "dirty": "yellow",
    "quarantined": "red",
    "cordoned": "yellow",
    "draining": "yellow",
    "expired": "red",
    "in quota": "green",
    "over quota": "yellow",
    "over fair share": "magenta",
}
"""Colors of the words that say how something stands."""


def examples(*commands: str) -> str:
    """The end of a verb's help."""
    return "\n\n".join(["Examples:", *(f"  [cyan]{command}[/]" for command in commands)])


def for_people() -> bool:
    """Return whether stdout is a terminal: colors, live views and questions are for terminals only."""
    return sys.stdout.isatty()


def console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not for_people())


def say(text: str = "", **style: bool) -> None:
    """Lines on stdout; what others wrote into them commands no terminal."""
    _echo(tamed_lines(text), style)


def hint(text: str, **style: bool) -> None:
    """Print progress and advice on stderr, so that stdout contains only the result."""
    _echo(tamed_lines(text), style, err=True)


def _echo(text: str, style: dict[str, bool], *, err: bool = False) -> None:
    # None for what is off, or its code would be written.
    chosen = {name: True for name, on in style.items() if on}
    typer.echo(typer.style(text, **chosen) if chosen else text, err=err)


def write_log(pieces: Iterable[str]) -> None:
    """A log as it comes: to a terminal what it may obey, to a file or a pipe the very text."""
    for text in tamed_log(pieces) if for_people() else pieces:
        sys.stdout.write(text)
        sys.stdout.flush()


def tell_attempt(number: int, job: str = "") -> None:
    """Say where the log of an attempt begins, beside the log."""
    hint(f"[grus] {job and f'{job}: '}attempt {number}")


def tell_dropped(count: int) -> None:
    """Say that log rotation has removed bytes before what is printed next."""
    hint(f"[grus] {size(count)} that it wrote before this are no longer kept")


# ------------------------------------------------------------------------------------------------- values


def plain_number(value: float) -> float:
    """Return a whole number as an int, so that errors repeat it as it was typed."""
    return int(value) if value.is_integer() else value


def plain(value: object) -> object:
    """A wire value as JSON knows it."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def emit_json(value: object) -> None:
    typer.echo(tamed_json(json.dumps(plain(value), indent=2, ensure_ascii=False)))


def emit(value: object, chosen: Format, show: Callable[[], None]) -> None:
    """Print the value: as JSON, or by `show` for people."""
    if chosen is Format.JSON:
        emit_json(value)
    else:
        show()


# ------------------------------------------------------------------------------------------------- tables


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """A table: colored on a terminal, aligned plain text elsewhere; `empty` for no rows."""
    cells = [[tamed(str(cell)) for cell in row] for row in rows]
    if not cells and empty:
        say(empty)
    elif for_people():
        console().print(rich_table(headings, cells))
    else:
        say("\n".join(aligned(headings, cells)))


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns two spaces apart, nothing cut and nothing trailing."""
    lines = [list(headings), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        made.add_column(heading, no_wrap=place == 0, overflow="fold")
    for row in rows:
        made.add_row(*(Text(tamed(cell), style=STYLES.get(cell, "")) for cell in row))
    return made


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; empty values are left out."""
    shown = [(tamed(name), tamed_lines(str(value))) for name, value in pairs if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        label, colour = name.ljust(width), STYLES.get(value)
        if for_people():
            label = typer.style(label, bold=True)
            value = _coloured(value, colour)
        typer.echo(f"{label}  {value}")


def _coloured(text: str, style: str | None) -> str:
    words = (style or "").split()
    colour = next((word for word in words if word not in ("bold", "dim")), None)
    if style is None or os.environ.get("NO_COLOR"):
        return text
    return typer.style(text, fg=colour, bold="bold" in words or None, dim="dim" in words or None)


# -------------------------------------------------------------------------------------------------- words


def moment(text: str | None) -> datetime | None:
    """The wire's RFC 3339 text as a time."""
    return datetime.fromisoformat(text) if text else None


def local(text: str | None) -> str:
    """A time of the wire as people here read it; the date only when it is not today's."""
    at = moment(text)
    if at is None:
        return ""
    here = at.astimezone()
    today = datetime.now(UTC).astimezone().date()
    return here.strftime("%H:%M:%S" if here.date() == today else "%Y-%m-%d %H:%M:%S")


def between(start: str | None, end: str | None) -> str:
    """Return the time between the two moments, or from the first to now."""
    begin = moment(start)
    if begin is None:
        return ""
    return span(((moment(end) or datetime.now(UTC)) - begin).total_seconds())


# ------------------------------------------------------------------------------------------------- errors


def show_error(error: GrusError, chosen: Format) -> None:
    """Print the error on stderr, one line per cause; with `-o json` the same object as the API's."""
    mistakes = error.mistakes if isinstance(error, BadInput) else []
    if chosen is Format.JSON:
        listed = [{"field": m.field, "rule": m.rule, "value": m.value, "line": m.line} for m in mistakes]
        hint(json.dumps({"error": {"code": error.code, "message": str(error), "mistakes": listed}}))
        return
    label = typer.style("error:", fg="red", bold=True) if _colour_on_stderr() else "error:"
    if len(mistakes) > 1:
        typer.echo(f"{label} {len(mistakes)} mistakes; nothing was done", err=True)
        for mistake in mistakes:
            hint(f"  {mistake}")
    else:
        typer.echo(f"{label} {tamed_lines(str(error))}", err=True)


def _colour_on_stderr() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
