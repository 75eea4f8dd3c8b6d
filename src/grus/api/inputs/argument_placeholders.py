"""Placeholders in the command of a sweep: `python train.py --lr {lr}` gets each trial's value. Pure.

{lr}        the trial's value of the parameter lr, searched or fixed; always a part of one argument
{{lr}}      the text {lr}
${HOME}     and all other braces stay as they are
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from grus.api.parsing.validation_errors import BrokenRule, Place
from grus.model.sweep_search import Axis, Params, Value

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,99}"
_PLACEHOLDER = re.compile(
    rf"(?<!\$)\{{(?P<escaped>\{{{_NAME}\}})\}}|(?<!\$)(?<!\$\{{)\{{(?P<name>{_NAME})\}}", re.ASCII
)
_SHELL = re.compile(r"(?:.*/)?(?:sh|bash|dash|ash|ksh|zsh)")
_COMMAND_OPTION = re.compile(r"-[a-z]*c")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|()])#[^\n]*""", re.DOTALL)
"""Parts of a shell line with special quoting rules: escaped, in quotes, in a comment."""
_NESTED = re.compile(r"""`|<<|\$[({'"]""")
"""Syntax that starts a quoting context of its own."""


def fill(argv: tuple[str, ...], params: Params) -> tuple[str, ...]:
    """Return the command with these values; in a shell line each value is quoted if it needs quotes."""
    values = {name: _text(value) for name, value in params}
    line = _line_at(argv)
    return tuple(
        _filled(word, {name: shlex.quote(text) for name, text in values.items()} if at == line else values)
        for at, word in enumerate(argv)
    )


def _filled(word: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(
        lambda found: found["escaped"] or values.get(found["name"], found.group()),
        word,
    )


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line_at(argv: Sequence[str]) -> int | None:
    """Return the index of the word that a shell parses, as in `bash -c LINE`; None if there is none."""
    shell = len(argv) > 2 and _SHELL.fullmatch(argv[0]) and _COMMAND_OPTION.fullmatch(argv[1])
    return 2 if shell else None


# ------------------------------------------------------------------------------------------------- rules


def values_of(axes: Sequence[Axis], fixed: Mapping[str, Value]) -> dict[str, tuple[Value, ...]]:
    """Return the parameters by name, each with its possible values; a searched range of numbers has none
    listed.
    """
    return {**{axis.name: axis.choices for axis in axes}, **{name: (one,) for name, one in fixed.items()}}


def argument_rules(
    at: Place, run: str | Sequence[str], known: Mapping[str, tuple[Value, ...]]
) -> Iterator[BrokenRule]:
    """Yield errors for placeholders without a parameter, and for values that a shell could interpret."""
    argv = ("/bin/sh", "-c", run) if isinstance(run, str) else tuple(run)
    line = _line_at(argv)
    names: set[str] = set()
    for index, word in enumerate(argv):
        for found in _PLACEHOLDER.finditer(word):
            name = found["name"]
            if name and name not in names:
                names.add(name)
                yield from _unknown(at, name, known)
                yield from _null_bytes(at, name, known.get(name, ()))
            if name in known and index == line and not _outside_quotes(word, found.start()):
                yield from _needs_quotes(at, name, known[name])


def _unknown(at: Place, name: str, known: Mapping[str, object]) -> Iterator[BrokenRule]:
    if name in known:
        return
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {{{close[0]}}}?" if close else f"the parameters are {', '.join(known)}"
    rule = f"{{{name}}} is not a parameter of this sweep (write {{{{{name}}}}} for the text itself); {meant}"
    yield BrokenRule(at, rule)


def _null_bytes(at: Place, name: str, values: Sequence[Value]) -> Iterator[BrokenRule]:
    if any("\0" in _text(value) for value in values):
        yield BrokenRule(
            at, f"{{{name}}} can have a null byte, which no argument can hold: use grus.params()"
        )


def _outside_quotes(line: str, place: int) -> bool:
    """Return True if a quoted value there is certainly one word; a line that nests quoting is never
    certain.
    """
    spans = [found.span() for found in _QUOTED.finditer(line)]
    rest = _QUOTED.sub("", line)
    balanced = not any(quote in rest for quote in "'\"")
    return balanced and not _NESTED.search(line) and not any(low <= place < high for low, high in spans)


def _needs_quotes(at: Place, name: str, values: Sequence[Value]) -> Iterator[BrokenRule]:
    for text in map(_text, values):
        if shlex.quote(text) != text:
            rule = (
                f"{{{name}}} can be {text!r}, which needs quotes of its own: write {{{name}}} outside quotes "
                "and without $(...), ${...}, backticks or << in the line, or write run as a list of arguments"
            )
            yield BrokenRule(at, rule)
            return
