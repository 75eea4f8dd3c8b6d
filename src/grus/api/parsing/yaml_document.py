"""Document parser: YAML (and so JSON) to plain values, with the line number of each.

Built from the parser's events without recursion, so that neither depth nor aliases can exhaust anything. It
follows the rules of YAML 1.2, which users expect: only true and false are truth values, only null and ~ (or
nothing) are null; `no`, `on`, `12:30`, `1_000`, `010` and dates are text. Knows nothing of jobs, except the
fields whose value is always text.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from grus.api.parsing.validation_errors import Place, clean, field_name
from grus.model.errors import BadInput, Mistake

LARGEST = 1024 * 1024
"""Bytes of one file."""
DEEPEST = 20
MOST_VALUES = 20_000
"""Maximum number of values in one file; those reached through aliases count each time."""
MOST_DOCUMENTS = 200
SKIPPED = "<<"
"""Skipped keys: YAML's key for merging, and keys that are none."""
FILE = "file"
"""Field name of an error that concerns the text as a whole."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STR = "tag:yaml.org,2002:str"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,30}|[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]", re.ASCII)


@dataclass(slots=True)
class Document:
    """One document: its value, and the line of every place in it."""

    value: Any
    lines: dict[Place, int] = field(default_factory=dict)

    def line_of(self, place: Place) -> int | None:
        """Return the line of a place, or of its parent if the place itself does not exist."""
        while place not in self.lines:
            if not place:
                return None
            place = place[:-1]
        return self.lines[place]


class _Size(NamedTuple):
    """Size of a value; content reached through aliases counts each time."""

    values: int = 0
    letters: int = 0

    def and_more(self, more: "_Size") -> "_Size":
        return _Size(self.values + more.values, self.letters + more.letters)

    def since(self, before: "_Size") -> "_Size":
        return _Size(self.values - before.values, self.letters - before.letters)


ONE = _Size(1)


@dataclass(slots=True)
class _Open:
    """Mapping or list whose end has not been read."""

    place: Place
    value: Any
    anchor: str | None
    first: "_Size"
    """Size seen up to its start."""
    keys: dict[str, int] = field(default_factory=dict)
    key: str | None = None
    is_key: bool = False
    """True if it is in the position of a key: skip it, then report an error."""


def read_documents(
    text: str | bytes, *, is_text: Callable[[Place], bool]
) -> tuple[list[Document], list[Mistake]]:
    """Return all documents, and their form errors (double keys, missing values, tags).

    Raises BadInput if the rest of the text cannot be parsed. `is_text` tells in which places a plain word is
    taken literally, without conversion.
    """
    text = _decoded(text)
    builder = _Builder(is_text)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.YAMLError as error:
        found = _as_json(text)
        if found is None:
            raise BadInput([*builder.mistakes, _syntax_mistake(error, text)]) from None
        return [found], []
    return builder.documents, builder.mistakes


def _decoded(text: str | bytes) -> str:
    """Return the text, if it is text at all and not too large."""
    if isinstance(text, bytes):
        try:
            text = text[: LARGEST + 8].decode("utf-8", "strict" if len(text) <= LARGEST else "replace")
        except UnicodeDecodeError:
            raise BadInput([Mistake(FILE, "is not text in UTF-8; is it a job file?")]) from None
    text = text.removeprefix("\ufeff")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadInput([Mistake(FILE, "is not text in UTF-8; is it a job file?")]) from None
    if size > LARGEST:
        raise BadInput([Mistake(FILE, "must be at most 1 MiB")])
    if "\0" in text:
        raise BadInput([Mistake(FILE, "has NUL characters: it is not text; is it a job file?")])
    return text


def _events(text: str) -> Any:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


class _Builder:
    """Assembles the events; one for a file."""

    def __init__(self, is_text: Callable[[Place], bool]) -> None:
        self.is_text = is_text
        self.documents: list[Document] = []
        self.mistakes: list[Mistake] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, _Size]] = {}
        self._seen = _Size()

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._begin_document(line)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", line)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open(event, {}, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open(event, [], line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(line)

    def _begin_document(self, line: int) -> None:
        if len(self.documents) >= MOST_DOCUMENTS:
            raise BadInput(
                [*self.mistakes, Mistake(FILE, f"has more than {MOST_DOCUMENTS} documents", line=line)]
            )
        self._anchors.clear()
        self.documents.append(Document(None))

    def _open(self, event: Any, value: Any, line: int) -> None:
        self._count(ONE, line)
        if len(self._stack) >= DEEPEST:
            rule = f"is nested more than {DEEPEST} levels deep"
            raise BadInput([*self.mistakes, Mistake(FILE, rule, line=line)])
        is_key = self._key_expected()
        place = self._place(line)
        self._refuse_tag(event, place, line)
        self._stack.append(_Open(place, value, event.anchor, self._seen, is_key=is_key))

    def _close(self, line: int) -> None:
        done = self._stack.pop()
        if done.is_key:
            around = field_name(self._stack[-1].place) or FILE
            self.mistakes.append(Mistake(around, "has a list or mapping as a key", line=line))
            self._stack[-1].key = SKIPPED
            return
        if done.anchor:
            self._anchors[done.anchor] = (done.value, self._seen.since(done.first).and_more(ONE))
        self._add(done.value)

    def _alias(self, anchor: str, line: int) -> None:
        is_key = self._key_expected()
        if anchor not in self._anchors:
            rule = f"*{clean(anchor)} stands for nothing: no &{clean(anchor)} is complete before it"
            raise BadInput([*self.mistakes, Mistake(FILE, rule, line=line)])
        value, size = self._anchors[anchor]
        self._count(size, line)
        if is_key:
            self._key(value if isinstance(value, str) else str(type(value).__name__), line)
            return
        self._place(line)
        self._add(value)

    def _scalar(self, event: Any, line: int) -> None:
        size = _Size(1, len(event.value))
        self._count(size, line)
        if self._key_expected():
            self._key(event.value, line)
            return
        place = self._place(line)
        if event.tag not in (None, "!", _STR):
            self._refuse_tag(event, place, line)
        value = _plain(event.value, self.is_text(place)) if event.implicit[0] else event.value
        if value is None and place:
            self._no_value(place, line)
            return
        if event.anchor:
            self._anchors[event.anchor] = (value, size)
        self._add(value)

    def _no_value(self, place: Place, line: int) -> None:
        rule = 'has no value: write one (or "" for empty text), or leave the line out'
        self.mistakes.append(Mistake(field_name(place), rule, line=line))
        self._stack[-1].key = None

    def _key(self, key: str, line: int) -> None:
        """Begin an entry; a duplicate key is an error that names both lines."""
        top = self._stack[-1]
        place = field_name((*top.place, key))
        if key == SKIPPED:
            self.mistakes.append(Mistake(place, "merging is not supported: write the fields out", line=line))
        elif key in top.keys:
            rule = f"is given twice, on line {top.keys[key]} and on line {line}: keep one"
            self.mistakes.append(Mistake(place, rule, line=line))
        top.keys.setdefault(key, line)
        top.key = key

    def _key_expected(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _place(self, line: int) -> Place:
        """Return the place of the next value and keep its line (that of the key, if it has one)."""
        document = self.documents[-1]
        if not self._stack:
            place: Place = ()
        elif isinstance((top := self._stack[-1]).value, dict):
            key = top.key or ""
            place, line = (*top.place, key), top.keys.get(key, line)
        else:
            place = (*top.place, len(top.value))
        document.lines.setdefault(place, line)
        return place

    def _add(self, value: Any) -> None:
        if not self._stack:
            self.documents[-1].value = value
        elif isinstance((top := self._stack[-1]).value, dict):
            if top.key != SKIPPED:
                top.value.setdefault(top.key, value)
            top.key = None
        else:
            top.value.append(value)

    def _refuse_tag(self, event: Any, place: Place, line: int) -> None:
        if event.tag not in (None, "!"):
            tag = clean(str(event.tag).replace("tag:yaml.org,2002:", "!!"))
            self.mistakes.append(
                Mistake(field_name(place) or FILE, f"has a tag {tag}; write it without", line=line)
            )

    def _count(self, more: _Size, line: int) -> None:
        self._seen = self._seen.and_more(more)
        rule = ""
        if self._seen.values > MOST_VALUES:
            rule = f"has more than {MOST_VALUES} values (aliases counted each time)"
        elif self._seen.letters > LARGEST:
            rule = f"has more than {LARGEST} characters (aliases counted each time)"
        if rule:
            raise BadInput([*self.mistakes, Mistake(FILE, rule, line=line)])


def _plain(text: str, as_text: bool) -> Any:
    """Return the value of a word without quotes."""
    if text in _NULLS:
        return None
    if as_text:
        return text
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and not _LEADING_ZERO.match(text):
        return float(text)
    return text


def _syntax_mistake(error: yaml.YAMLError, text: str) -> Mistake:
    """Describe the parser's error in words that help."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        control = _CONTROL.search(text)
        line = text.count("\n", 0, control.start()) + 1 if control else None
        return Mistake(FILE, f"is not YAML: {clean(str(getattr(error, 'reason', None) or error))}", line=line)
    problem = str(getattr(error, "problem", "") or error)
    begun = getattr(error, "context_mark", None) or mark
    lines = text.splitlines()
    written = lines[mark.line] if mark.line < len(lines) else ""
    before = written[: len(written) - len(written.lstrip())]
    if "\t" in before or written[mark.column : mark.column + 1] == "\t":
        rule = "is indented with a tab: YAML takes spaces only"
    elif "mapping values are not allowed" in problem:
        rule = "has a colon where none may be: put text that contains ': ' in quotes"
    elif "could not find expected ':'" in problem:
        rule, mark = "is not YAML: a key needs a colon and a space after it (key: value)", begun
    elif "unexpected end of stream" in problem:
        rule, mark = "is not YAML: what begins here with a quote is never closed", begun
    else:
        rule = f"is not YAML: {clean(problem)}"
    written = lines[mark.line] if mark.line < len(lines) else ""
    return Mistake(FILE, rule, clean(written.strip()), mark.line + 1)


def _as_json(text: str) -> Document | None:
    """Return the few texts that are JSON but no YAML (escaped surrogate pairs); without lines. None if
    neither.
    """
    if not text.lstrip().startswith("{"):
        return None
    twice: list[Mistake] = []

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key, item in entries:
            if key in value:
                twice.append(Mistake(clean(key), "is given twice: keep one"))
            value[key] = item
        return value

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    if twice:
        raise BadInput(twice)
    return Document(value)
