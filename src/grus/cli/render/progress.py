"""Long work: what it says of itself on stderr, one line that changes on a terminal; how long it may take."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grus.cli.render.output import hint

if TYPE_CHECKING:
    from grus.cli.whatif.scenario_inputs import Gathering


@contextmanager
def told() -> Iterator[Callable[[str], None]]:
    """Takes a few words about what is being done now."""
    if not sys.stderr.isatty():
        yield lambda words: hint(f"{words} …")
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda words: status.update(f"{words} …")


def limit_of(gathering: "Gathering", text: str) -> float:
    """Seconds of `--limit`; what is wrong with it is noted."""
    from grus.model.texts.units import parse_seconds

    return above_zero(gathering, "limit", text, parse_seconds)


def above_zero(gathering: "Gathering", option: str, text: str, parse: Callable[[str], float]) -> float:
    """Parse an option that must be above 0; record an error if it is not."""
    try:
        found = float(parse(text))
    except ValueError as error:
        gathering.note(option, str(error), text)
        return 0.0
    if found <= 0:
        gathering.note(option, "must be above 0", text)
    return found
