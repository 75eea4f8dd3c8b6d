"""What long work says of itself: one line that changes on a terminal, a line each elsewhere; on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from grus.cli.output import hint


@contextmanager
def told() -> Iterator[Callable[[str], None]]:
    """Takes a few words about what is being done now."""
    if not sys.stderr.isatty():
        yield lambda words: hint(f"{words} …")
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda words: status.update(f"{words} …")
