"""Placeholders in the command of a sweep: `{lr}` stands for the trial's value of the parameter lr.

Only `{name}` with the name of a parameter is filled; `{{name}}` is a literal `{name}`. `${NAME}` is the
shell's, and braces around anything but a name are left alone. Another name in braces is a mistake, except
between single quotes of a command line, where awk has its programs. A value is one word wherever it stands:
it is quoted for the shell as the text around it asks for.
"""

import json
import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

Value = bool | int | float | str
PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""Values that mean themselves in every context of a shell."""
NESTED = re.compile(r"\$\(|`|<<")
"""What begins a command or a document inside a command line: quotes count anew there."""
_BRACES = re.compile(r"(?<![\${])\{(\{)?([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}(?(1)\})")


class Found(NamedTuple):
    """One pair of braces: where, whose name, whether doubled, and inside which quotes (\"\", ' or \")."""

    start: int
    end: int
    name: str
    doubled: bool
    quotes: str


def fill(run: tuple[str, ...], shell: tuple[str, ...], values: Mapping[str, Value]) -> tuple[str, ...]:
    """The command with the values in place of their names."""
    if run[: len(shell)] == shell:
        return (*shell, _filled(run[-1], values, line=True))
    return tuple(_filled(word, values, line=False) for word in run)


def unknown_names(run: str | Iterable[str], known: Container[str]) -> list[str]:
    """Names in braces that no parameter has."""
    line = isinstance(run, str)
    found = [one for word in ([run] if isinstance(run, str) else run) for one in _found(word, line)]
    return [one.name for one in found if not one.doubled and one.name not in known and one.quotes != "'"]


def filled_names(run: str | Iterable[str]) -> set[str]:
    """Names in single braces."""
    line = isinstance(run, str)
    words = [run] if isinstance(run, str) else run
    return {one.name for word in words for one in _found(word, line) if not one.doubled}


def written(value: Value) -> str:
    """A value as an argument: numbers and truth as in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _filled(text: str, values: Mapping[str, Value], line: bool) -> str:
    pieces, at = [], 0
    for one in _found(text, line):
        if one.name not in values and not one.doubled:
            continue
        pieces.append(text[at : one.start])
        if one.doubled:
            pieces.append(f"{{{one.name}}}")
        else:
            value = written(values[one.name])
            pieces.append(_quoted(value, one.quotes) if line else value)
        at = one.end
    return "".join([*pieces, text[at:]])


def _quoted(value: str, quotes: str) -> str:
    """The value as part of one word, given the quotes that it stands in."""
    if PLAIN.fullmatch(value):
        return value
    if quotes == "'":
        return value.replace("'", "'\\''")
    if quotes == '"':
        return re.sub(r'([\\"$`])', r"\\\1", value)
    return shlex.quote(value)


def _found(text: str, line: bool) -> Iterator[Found]:
    quotes, at = "", 0
    for match in _BRACES.finditer(text):
        quotes = _quotes_after(text[at : match.start()], quotes) if line else ""
        at = match.start()
        yield Found(match.start(), match.end(), match[2], match[1] is not None, quotes)


def _quotes_after(text: str, quotes: str) -> str:
    """Which quotes are open at the end of a piece of a command line that begins inside `quotes`."""
    escaped = False
    for letter in text:
        if escaped:
            escaped = False
        elif letter == "\\" and quotes != "'":
            escaped = True
        elif letter in "'\"" and quotes in ("", letter):
            quotes = "" if quotes else letter
    return quotes
