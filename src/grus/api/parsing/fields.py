"""Field types of inputs: each knows its rule and states it in one sentence.

A field keeps what the user wrote; `job_spec` converts it into amounts. Validators refuse instead of
converting: the text "3" in place of a number is an error that the user should see.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_plain_validator_function

from grus.api.parsing.validation_errors import BrokenRule, clean, failure
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import NAME, NAME_RULE
from grus.model.jobs import PRIORITIES
from grus.model.texts.units import (
    parse_bytes,
    parse_gpu,
    parse_percent,
    parse_range,
    parse_seconds,
    render_seconds,
)

Check = Callable[[Any], Any]
"""Function that returns the value, or raises ValueError with the rule that it breaks."""


class judged:
    """Annotation whose `check` alone validates the value; the annotated type describes it (types, JSON
    schema).
    """

    def __init__(self, check: Check) -> None:
        self._check = check

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(self._check, json_schema_input_schema=handler(source))


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,252}", re.ASCII)

DAY = 86400.0
LONGEST_TEXT = 100_000
"""Characters of one text; Linux takes at most 128 KiB for one argument or variable."""
LONGEST_PATH = 4_000
LONGEST_LABEL = 255
NONE = "none"
"""Word that removes a setting on the command line; it cannot be used as a name."""
MOST_ITEMS = 1_000
MOST_PRIORITY = 125

SET_BY_GRUS = frozenset(
    {"GRUS_JOB", "GRUS_ATTEMPT", "GRUS_GENERATION", "GRUS_WORKER", "GRUS_CONTROL", "GRUS_CHECKPOINT"}
    | {"GRUS_RESUME", "GRUS_GPUS", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    | {"GRUS_ROLE", "GRUS_REPORT", "GRUS_VIRTUAL", "GRUS_GPU_MEMORY_FRACTION", "GRUS_WORKER_TOKEN"}
    | {"GRUS_BELL", "GRUS_HOST", "GRUS_MAX_WORKERS", "GRUS_CHECKPOINT_EVERY", "CUDA_VISIBLE_DEVICES"}
    | {"GRUS_PARAMS", "GRUS_TRIAL", "GRUS_RUNGS"}
)
"""Variables that Grus sets for each worker; a job cannot set them."""


def text(longest: int = LONGEST_TEXT, *, empty: bool = False) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError("must be text; write it in quotes")
        if not empty and not value.strip():
            raise ValueError("must not be empty")
        if problem := text_problem(value, longest):
            raise ValueError(problem)
        return value

    return check


def text_problem(value: str, longest: int) -> str:
    """Describe why this text cannot be an argument of a process, a path or a log line; empty if it can."""
    if len(value) > longest:
        return f"must be at most {longest} characters, this has {len(value)}"
    if "\0" in value:
        return "must not contain a NUL character"
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        return "must be valid Unicode; this has half of a surrogate pair"
    return ""


def name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(NAME_RULE)
    return value


def whole(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return check


def number(low: float, high: float) -> Check:
    def check(value: Any) -> int | float:
        right = isinstance(value, int | float) and not isinstance(value, bool)
        if not right or not low <= value <= high:  # nor is a value that is no number between the two
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return value  # type: ignore[no-any-return]  # pydantic hands over Any

    return check


def object_name(name_: str) -> str:
    """Return the name of a queue or a user. Raises BadInput."""
    try:
        name(name_)
        if name_ == NONE:
            raise ValueError("is the word that removes a setting; choose another name")
    except ValueError as error:
        raise BadInput([Mistake("name", str(error), name_[:80])]) from None
    return name_


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def choice(words: Iterable[str], refused: Mapping[str, str] = {}) -> Check:
    """Accept one of these words; some others are refused with a sentence of their own."""
    words = tuple(words)

    def check(value: Any) -> str:
        if isinstance(value, str):
            if value in words:
                return str(value)
            if value in refused:
                raise ValueError(refused[value])
            plain = value.lower().replace("_", "-")
            if close := get_close_matches(plain[:60], words, n=1):
                raise ValueError(f"must be one of {', '.join(words)}; did you mean {close[0]}?")
        raise ValueError(f"must be one of {', '.join(words)}")

    return check


def optional(check: Check) -> Check:
    """Accept None for a field that was left out."""
    return lambda value: None if value is None else check(value)


def seconds(low: float, high: float) -> Check:
    def check(value: Any) -> Any:
        if not low <= parse_seconds(_simple(value)) <= high:
            raise ValueError(f"must be from {render_seconds(low)} to {render_seconds(high)}")
        return value

    return check


def parsed(parse: Callable[[object], object]) -> Check:
    """Accept any text that this parser of `units` accepts; it is kept as written."""

    def check(value: Any) -> Any:
        parse(_simple(value))
        return value

    return check


def _simple(value: Any) -> Any:
    """Refuse containers as amounts (or keys of a cache); cut a text of absurd length."""
    if isinstance(value, str):
        return value[:200]
    return value if isinstance(value, int | float) else None


def host_memory(value: Any) -> Any:
    if parse_bytes(_simple(value)) < 1_000_000:
        raise ValueError("must be at least 1MB")
    return value


def priority(value: Any) -> str | int:
    if isinstance(value, str):
        return str(choice(PRIORITIES)(value))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_PRIORITY:
        words = ", ".join(f"{word} ({level})" for word, level in PRIORITIES.items())
        raise ValueError(f"must be one of {words}, or a whole number from 0 to {MOST_PRIORITY}")
    return value


def items(check: Check, *, most: int = MOST_ITEMS, least: int = 0) -> Check:
    """Check a list in which every item passes `check`; report all bad items."""

    def check_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("must be a list")
        if not least <= len(value) <= most:
            raise ValueError("must not be empty" if len(value) < least else f"must have at most {most} items")
        broken = []
        for at, item in enumerate(value):
            try:
                check(item)
            except ValueError as error:
                broken.append(BrokenRule((at,), str(error), item))
        if broken:
            raise failure(broken)
        return tuple(value)

    return check_all


def one_or_more(check: Check) -> Check:
    """Accept a text, or a list of texts that is not empty."""
    many = items(check, least=1)

    def check_any(value: Any) -> str | tuple[str, ...]:
        if isinstance(value, str):
            return str(check(value))
        if not isinstance(value, list | tuple):
            raise ValueError("must be text or a list of texts")
        return tuple(many(value))

    return check_any


def table(key_rule: Callable[[str], str], *, most: int = MOST_ITEMS, longest: int = LONGEST_TEXT) -> Check:
    """Accept a mapping from keys to texts. Whole numbers become their digits; anything else is refused."""

    def check(value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise ValueError("must be a mapping (key: value)")
        if len(value) > most:
            raise ValueError(f"must have at most {most} entries")
        broken = []
        result = {}
        for key, item in value.items():
            problem = key_rule(key) if isinstance(key, str) else "must have a text as its key"
            if isinstance(item, int) and not isinstance(item, bool) and abs(item) < 10**18:
                item = str(item)
            if not problem:
                problem = (
                    text_problem(item, longest)
                    if isinstance(item, str)
                    else "must be text; write it in quotes"
                )
            if problem:
                broken.append(
                    BrokenRule((clean(str(key)) if not isinstance(key, str) else key,), problem, item)
                )
            result[key] = item
        if broken:
            raise failure(broken)
        return result

    return check


def variable_rule(key: str) -> str:
    if key in SET_BY_GRUS:
        return "is set by Grus itself; choose another name"
    if not _VARIABLE.fullmatch(key):
        return "must be named with letters, digits and _, and not start with a digit"
    return ""


def label_rule(key: str) -> str:
    return (
        ""
        if _LABEL.fullmatch(key)
        else "must be a label: letters, digits and . _ / -, starting with one of the former"
    )


_command = one_or_more(text())
_amount = str | int | float

Name = Annotated[str, judged(name)]
MaybeName = Annotated[str | None, judged(optional(name))]
Names = Annotated[Sequence[str], judged(items(name))]
Flag = Annotated[bool, judged(flag)]
Command = Annotated[
    str | Sequence[str] | None,
    judged(optional(_command)),
]
Gpu = Annotated[_amount, judged(parsed(parse_gpu))]
Replicas = Annotated[str | int, judged(parsed(parse_range))]
MaybeSeconds = Annotated[_amount | None, judged(optional(seconds(1, 366 * DAY)))]
"""A length of time of at most a year."""
Percent = Annotated[str, judged(parsed(parse_percent))]
HostMemory = Annotated[str | None, judged(optional(host_memory))]
Priority = Annotated[str | int | None, judged(optional(priority))]
Path = Annotated[str, judged(text(LONGEST_PATH, empty=True))]
Variables = Annotated[dict[str, str], judged(table(variable_rule))]
Labels = Annotated[
    dict[str, str],
    judged(table(label_rule, most=64, longest=LONGEST_LABEL)),
]
