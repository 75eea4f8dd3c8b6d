"""Golden files: what users, stored state and other programs rely on, written down and compared by a test.

`structure/` holds names, types and values; `texts/` holds descriptions and help. A reworded text changes no
file of `structure/`. `python -m tests.golden.write` writes both.
"""

import difflib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
STRUCTURE, TEXTS = "structure", "texts"
COMMAND = "python -m tests.golden.write"
WORDS = ("description", "summary", "title")
"""Keys of schemas whose values are texts for people."""
MADE = "title"
"""The one of them that Pydantic makes of a name: it says nothing more."""
WIDTH = 100


@dataclass(frozen=True, slots=True)
class Golden:
    """One file and the function that makes its content."""

    name: str
    """Path below this folder."""
    make: Callable[[], str]

    @property
    def path(self) -> Path:
        return FOLDER / self.name

    def difference(self) -> str:
        """The lines that differ, with the command that accepts them; "" if the file is up to date."""
        kept = self.path.read_text("utf-8") if self.path.exists() else ""
        made = self.make()
        if kept == made:
            return ""
        lines = difflib.unified_diff(
            kept.splitlines(), made.splitlines(), f"{self.name} (kept)", "now", lineterm="", n=2
        )
        return "\n".join([*lines, f"If this is intended: {COMMAND} {self.name}"])


def as_json(value: Any) -> str:
    """Sorted and indented; what is short enough stays on one line."""
    return _indented(value, 0) + "\n"


def _indented(value: Any, depth: int) -> str:
    short = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if not value or not isinstance(value, Mapping | list | tuple) or (depth and len(short) <= WIDTH - depth):
        return short
    pad, end = " " * (depth + 1), " " * depth
    if isinstance(value, Mapping):
        inside = (f"{pad}{json.dumps(key)}: {_indented(value[key], depth + 1)}" for key in sorted(value))
        return "{\n" + ",\n".join(inside) + f"\n{end}}}"
    return "[\n" + ",\n".join(f"{pad}{_indented(one, depth + 1)}" for one in value) + f"\n{end}]"


def lines(text: str) -> str | list[str]:
    """A text without the indentation of its source; one of several lines as a list of them."""
    found = inspect.cleandoc(text).splitlines()
    return found[0] if len(found) == 1 else found


def without_words(schema: Any) -> Any:
    """The schema alone. A property may be called `title`: only texts are left out."""
    if isinstance(schema, Mapping):
        return {key: without_words(value) for key, value in schema.items() if not _is_word(key, value)}
    return [without_words(one) for one in schema] if isinstance(schema, list | tuple) else schema


def words(schema: Any) -> dict[str, str | list[str]]:
    """The texts of a schema by their places."""
    return dict(_words(schema, ()))


def _words(schema: Any, place: tuple[str, ...]) -> Iterator[tuple[str, str | list[str]]]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if _is_word(key, value):
                if key != MADE:
                    yield " ".join((*place, key)), lines(value)
            else:
                yield from _words(value, (*place, str(key)))
    elif isinstance(schema, list | tuple):
        for number, one in enumerate(schema):
            yield from _words(one, (*place, str(number)))


def _is_word(key: object, value: object) -> bool:
    return key in WORDS and isinstance(value, str)
