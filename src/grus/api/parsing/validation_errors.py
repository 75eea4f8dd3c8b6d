"""Input validation: reports every error at once, each with its place, its value and the rule that it breaks.

`Strict` is the base of all models that come from outside. `read` turns any data into such a model or raises
BadInput; `mistakes_of` does the same for errors that a web framework has caught. No I/O.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from grus.model.errors import BadInput, Mistake

Place = tuple[str | int, ...]
"""Position in the input: keys and indexes from the top."""

LONGEST_SHOWN = 80
MOST_MISTAKES = 100
"""Maximum number of errors listed; more are only counted, because an endless list does not help and takes
long to make.
"""
_NOT_A_MAPPING = "must be a mapping (key: value), with the keys "


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """Rule that the input breaks, and the place."""

    at: Place
    rule: str
    value: object = None
    meant: str = ""
    """Known key that was probably meant by an unknown one."""


def failure(broken: Iterable[BrokenRule]) -> ValidationError:
    """Return all of them as one error that pydantic passes upwards, adding the outer places."""
    return ValidationError.from_exception_data(
        "input",
        [
            InitErrorDetails(
                type=PydanticCustomError("rule", "{rule}", {"rule": one.rule, "meant": one.meant}),
                loc=one.at,
                input=one.value,
            )
            for one in broken
        ],
    )


class ValidFields:
    """Parts of an input that can be validated further: those without an error so far."""

    def __init__(self, bad: Iterable[Place] = ()) -> None:
        self._bad = tuple(bad)

    def __call__(self, *place: str | int) -> bool:
        """Return whether there is no error in this place, inside it or around it."""
        return not any(bad[: len(place)] == place[: len(bad)] for bad in self._bad)

    def present(self, *place: str | int) -> bool:
        """Return whether this place exists and can be examined, though parts of it may be bad."""
        return not any(bad == place[: len(bad)] for bad in self._bad)


class Strict(BaseModel):
    """Model from outside: unknown keys are errors, and rules between fields are checked with the rest."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, serialize_by_alias=True)
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Words that users write instead of a field's name: the right name, or a sentence to show."""

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        """Return broken rules between fields; rules on parts that are not sound are left out."""
        del sound
        return []

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the names of the fields as they are written."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="wrap")
    @classmethod
    def _judge(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            value = handler(data)
        except ValidationError as error:
            raise failure(cls._judge_rest(data, handler, error)) from None
        if broken := value.across(ValidFields()):
            raise failure(broken)
        return value

    @classmethod
    def _judge_rest(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], error: ValidationError
    ) -> list[BrokenRule]:
        """Return the errors found, and those between the fields that remain when the bad ones are left
        out.
        """
        errors = error.errors(include_url=False)
        broken = [cls._broken(dict(one)) for one in errors[:MOST_MISTAKES]]
        if len(errors) > MOST_MISTAKES:
            rule = f"has {len(errors) - MOST_MISTAKES} more mistakes; these are the first"
            return [*broken, BrokenRule((), rule)]
        if not isinstance(data, Mapping) or any(not one.at for one in broken):
            return broken
        places = [one.at for one in broken]
        try:
            rest = handler(_without(data, places))
        except ValidationError:  # a partly wrong field is not usable: check the others
            try:
                rest = handler(_without(data, [place[:1] for place in places]))
            except ValidationError:
                return broken
        meant = [(*one.at[:-1], one.meant) for one in broken if one.meant]
        return broken + rest.across(ValidFields(places + meant))

    @classmethod
    def _broken(cls, error: Mapping[str, Any]) -> BrokenRule:
        kind, at, value = error["type"], tuple(error["loc"]), error["input"]
        if kind == "extra_forbidden" and len(at) == 1:
            return unknown(str(at[0]), value, cls.field_names(), cls.synonyms)
        if kind in ("model_type", "model_attributes_type") and not at:
            return BrokenRule(at, _NOT_A_MAPPING + ", ".join(cls.field_names()), value)
        if kind == "missing":
            return BrokenRule(at, "is needed")
        return BrokenRule(at, _rule(error), value, (error.get("ctx") or {}).get("meant", ""))


def _rule(error: Mapping[str, Any]) -> str:
    """Return the broken rule in an error of pydantic."""
    context = error.get("ctx") or {}
    if error["type"] == "rule":
        return str(context["rule"])
    if error["type"] == "value_error" and "error" in context:
        return str(context["error"])
    if error["type"] == "json_invalid":
        return f"is not valid JSON: {context.get('error', '')}"
    message = str(error["msg"])
    return message[:1].lower() + message[1:]


def _without(data: Mapping[Any, Any], places: Iterable[Place]) -> dict[Any, Any]:
    """Return a copy without these places; a list with such a place is removed as a whole."""
    copy = dict(data)
    for place in places:
        at = copy
        for step, following in zip(place, (*place[1:], None), strict=True):
            inner = at.get(step)
            if not isinstance(following, str) or not isinstance(inner, Mapping):
                at.pop(step, None)
                break
            at[step] = inner = dict(inner)
            at = inner
    return copy


def unknown(key: str, value: object, known: Iterable[str], synonyms: Mapping[str, str]) -> BrokenRule:
    """Describe an unknown key, with suggestions."""
    known = list(known)
    plain = key[:60].lower().replace("-", "_")
    close = [synonyms[plain]] if plain in synonyms else get_close_matches(plain, known, n=1)
    if not close:
        return BrokenRule((key,), f"is not a field here; the fields are {', '.join(known)}", value)
    if close[0] not in known:
        return BrokenRule((key,), f"is not a field here; {close[0]}", value)
    return BrokenRule((key,), f"is not a field here; did you mean {close[0]}?", value, close[0])


def field_name(place: Place) -> str:
    """Render a place as users write it: roles.worker.replicas, sizes[1]."""
    text = ""
    for step in place:
        part = f"[{step}]" if isinstance(step, int) else clean(str(step)) or "''"
        text += part if isinstance(step, int) or not text else f".{part}"
    return text


def clean(text: str) -> str:
    """Return text that is safe to show on one line, and not too long."""
    if not text.isprintable():
        text = text.encode("unicode_escape", "backslashreplace").decode("ascii")
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def shown(value: object) -> str:
    """Return a value as it stands in the input, shortened."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value) if value else "''"
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes"
    try:
        return clean(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return type(value).__name__


Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], data: object, *, whole: str = "job") -> Model:
    """Return `data` as a model, or raise BadInput with every error; `whole` names the kind of object."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise BadInput(mistakes_of(error.errors(include_url=False), whole=whole)) from None


def mistakes_of(
    errors: Iterable[Any],
    *,
    whole: str = "job",
    line_of: Callable[[Place], int | None] = lambda _: None,
) -> list[Mistake]:
    """Convert errors of pydantic (or of a web framework: `body`, `query` … in front are dropped) to
    `Mistake`s.
    """
    found = []
    for error in errors:
        place: Place = tuple(error["loc"])
        if place and place[0] in ("body", "query", "path", "header", "cookie"):
            place = place[1:]
        if error["type"] == "json_invalid":
            place = ()
        rule = "is needed" if error["type"] == "missing" else _rule(error)
        value = "" if error["type"] == "missing" else shown(error.get("input"))
        found.append(Mistake(field_name(place) or whole, rule, value, line_of(place)))
    return found
