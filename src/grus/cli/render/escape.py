r"""Escaping of untrusted text on one's own terminal: control characters are shown (`\x1b`), not obeyed.

The owner of a job chooses the names of metrics, reasons and logs. A terminal that obeyed control characters
in them could be renamed, asked to type, or shown forged lines. Pure, except for the end of a log's last
piece.
"""

import re
from collections.abc import Iterable, Iterator

_DIRECTIONS = "\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that let a line be read in another order than it was written."""
_COMMANDS = re.compile(f"[\x00-\x1f\x7f-\x9f{_DIRECTIONS}]")
_BETWEEN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTIONS}]")
_IN_LOGS = re.compile(r"\x1b\[[0-9;:]{0,32}[mKABCDG]|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Colors and moves within the line, which progress bars need, or one character that is not allowed."""
_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,32})?\Z")
_IN_JSON = re.compile(f"[\x7f-\x9f{_DIRECTIONS}]")


def tamed(text: str) -> str:
    """Escape a text for one line: a line's end is shown as well."""
    return _COMMANDS.sub(_shown, text)


def tamed_lines(text: str) -> str:
    """Escape a text but keep its lines and tabs."""
    return _BETWEEN_LINES.sub(_shown, text)


def tamed_json(text: str) -> str:
    """The same JSON, in which the rest of what commands a terminal is written as JSON knows it."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def tamed_log(pieces: Iterable[str]) -> Iterator[str]:
    """A log as it comes; colors and progress bars work, titles, questions and the rest are shown."""
    rest = ""
    for piece in pieces:
        text = rest + piece
        begun = _BEGUN.search(text)
        rest = begun[0] if begun else ""
        yield _IN_LOGS.sub(_shown, text[: len(text) - len(rest)])
    yield tamed(rest)


def _shown(found: re.Match[str]) -> str:
    one = found[0]
    if len(one) > 1:
        return one
    return f"\\x{ord(one):02x}" if ord(one) < 256 else f"\\u{ord(one):04x}"
