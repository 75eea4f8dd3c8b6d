"""Pages that are one HTML file (`--html FILE`). Whether one can be written is seen before the work."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from grus.cli.render.output import hint
from grus.model.errors import BadInput, Mistake

Html = Annotated[
    str, typer.Option(help="Write a page with plots too: one file, needs no network.", metavar="FILE")
]


def problem(html: str) -> Mistake | None:
    """Return why no page can be written there; None if one can, or none is wanted."""
    page = Path(html)
    if not html:
        return None
    if page.is_dir() or not page.absolute().parent.is_dir():
        return Mistake("html", "must be a file in a folder that is there", html)
    if not os.access(page if page.exists() else page.absolute().parent, os.W_OK):
        return Mistake("html", "cannot be written there", html)
    return None


def write(html: str, page: Callable[[str], str]) -> None:
    """The whole page or none; `page` makes it out of Plotly's script."""
    from importlib.resources import files

    path = Path(html)
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(page(script), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise BadInput([Mistake("html", f"cannot be written: {error.strerror}", html)]) from None
    hint(f"page: {path}")
