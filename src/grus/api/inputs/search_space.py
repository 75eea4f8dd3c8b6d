"""Search space of a sweep, as written: the name of each parameter and its possible values.

space:
  lr: {log: [1e-5, 1e-1]}         # orders of magnitude are alike
  width: [64, 128, 256]           # one of these; also {choice: [64, 128, 256]}
  depth: {int: [1, 8]}            # a whole number, both ends included
  dropout: {uniform: [0, 0.5]}    # any number between; with step: 0.1 only these
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from grus.api.parsing.validation_errors import BrokenRule, failure, unknown
from grus.model.sweep_search import Axis

MOST_AXES = 100
MOST_CHOICES = 1000
LARGEST = 1e15
"""Whole numbers beyond it are not exact as floats."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_KINDS = ("uniform", "log", "int", "choice")
_SYNONYMS = {
    **dict.fromkeys(("float", "range", "linear", "double"), "uniform"),
    **dict.fromkeys(("loguniform", "log_uniform", "logarithmic"), "log"),
    **dict.fromkeys(("integer", "whole", "randint"), "int"),
    **dict.fromkeys(("choices", "values", "categorical", "options"), "choice"),
    **dict.fromkeys(("q", "quantum"), "step"),
    **dict.fromkeys(("low", "high", "min", "max"), "write the ends as uniform: [0, 1]"),
}
FORMS = "write {log: [1e-5, 1e-1]}, {uniform: [0, 1]}, {int: [1, 8]} or a list of choices"


NAME_RULE = "must be named with letters, digits and _ . -, starting with a letter or _"


def is_name(name: object) -> bool:
    """Return whether a parameter can have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def checked(value: Any) -> dict[str, Any]:
    """Return the space as written, if it is valid; report every error in it at once."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping from a parameter's name to what it may be: {FORMS}")
    if not 1 <= len(value) <= MOST_AXES:
        raise ValueError(f"must have 1 to {MOST_AXES} parameters")
    broken = [one for name, given in value.items() for one in _axis_rules(name, given)]
    if broken:
        raise failure(broken)
    return dict(value)


def axes(space: Mapping[str, Any]) -> tuple[Axis, ...]:
    """Return the space for the core; it has been checked."""
    return tuple(_axis(name, given) for name, given in space.items())


def count(axis: Axis) -> int | None:
    """Return the number of possible values; None if it is unlimited."""
    if axis.choices:
        return len(axis.choices)
    step = axis.step if axis.step is not None else 1.0 if axis.whole else None
    return None if step is None else int(min((axis.high - axis.low) / step, LARGEST)) + 1


def _axis_rules(name: Any, given: Any) -> list[BrokenRule]:
    at = (str(name),)
    if not is_name(name):
        return [BrokenRule(at, NAME_RULE)]
    if isinstance(given, list | tuple):
        return _choice_rules(at, given)
    if not isinstance(given, Mapping):
        return [BrokenRule(at, f"must say what it may be: {FORMS}", given)]
    broken = [
        BrokenRule((*at, *one.at), one.rule, one.value)
        for key, value in given.items()
        if key not in (*_KINDS, "step")
        for one in [unknown(str(key), value, (*_KINDS, "step"), _SYNONYMS)]
    ]
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) > 1:
        broken.append(BrokenRule(at, f"has {' and '.join(kinds)}: give one of them"))
    if not kinds and not broken:
        broken.append(BrokenRule(at, f"must say what it may be: {FORMS}", given))
    if broken:
        return broken
    kind = kinds[0]
    if kind == "choice":
        rules = _choice_rules((*at, kind), given[kind])
        return rules + (
            [BrokenRule((*at, "step"), "is for numbers, not for choices")] if "step" in given else []
        )
    return _range_rules(at, kind, given)


def _choice_rules(at: tuple[str, ...], given: Any) -> list[BrokenRule]:
    if not isinstance(given, list | tuple):
        return [BrokenRule(at, "must be a list of choices, such as [64, 128]", given)]
    if not 1 <= len(given) <= MOST_CHOICES:
        rule = "has no choice in it" if not given else f"must have at most {MOST_CHOICES} choices"
        return [BrokenRule(at, rule, given)]
    broken = []
    for place, one in enumerate(given):
        if not isinstance(one, bool | int | float | str) or len(str(one)) > 1000:
            broken.append(BrokenRule((*at, place), "must be a number, a short text, or true or false", one))
        elif isinstance(one, float) and not math.isfinite(one):
            broken.append(BrokenRule((*at, place), "must be a finite number", one))
        elif any(one == other and type(one) is type(other) for other in given[:place]):
            broken.append(BrokenRule((*at, place), "stands here twice", one))
    return broken


def _range_rules(at: tuple[str, ...], kind: str, given: Mapping[str, Any]) -> list[BrokenRule]:
    ends = given[kind]
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return [BrokenRule((*at, kind), "must be its two ends, such as [1, 8]", ends)]
    broken = []
    for place, end in enumerate(ends):
        if rule := _end_rule(kind, end):
            broken.append(BrokenRule((*at, kind, place), rule, end))
    if broken:
        return broken
    low, high = number(ends[0]), number(ends[1])
    assert low is not None
    assert high is not None
    if low >= high:
        word = "are equal" if low == high else "are the wrong way round"
        hint = f"write [{ends[0]}] for one value" if low == high else f"write [{ends[1]}, {ends[0]}]"
        return [BrokenRule((*at, kind), f"its ends {word}: {hint}", list(ends))]
    return _step_rules(at, kind, given, high - low)


def _end_rule(kind: str, end: Any) -> str:
    value = number(end)
    if value is None or not math.isfinite(value) or abs(value) > LARGEST:
        return "must be a finite number" if kind != "int" else "must be a whole number"
    if kind == "int" and value != int(value):
        return "must be a whole number"
    if kind == "log" and value <= 0:
        return "must be above 0: orders of magnitude begin there"
    return ""


def _step_rules(at: tuple[str, ...], kind: str, given: Mapping[str, Any], width: float) -> list[BrokenRule]:
    if "step" not in given:
        return []
    step = number(given["step"])
    here = (*at, "step")
    if kind == "log":
        return [BrokenRule(here, "is for uniform and int: orders of magnitude have no steps", given["step"])]
    if step is None or not math.isfinite(step) or step <= 0:
        return [BrokenRule(here, "must be a number above 0", given["step"])]
    if width / step > LARGEST:
        rule = f"must be at least {width / LARGEST:g}: floats tell no more apart"
        return [BrokenRule(here, rule, given["step"])]
    if kind == "int" and step != int(step):
        return [BrokenRule(here, "must be a whole number here", given["step"])]
    if step > width:
        return [BrokenRule(here, f"must be at most {width:g}, from one end to the other", given["step"])]
    return []


def number(value: Any) -> float | None:
    """Return the number that stands there, as far as a float can hold it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isinstance(value, float) or abs(value) <= LARGEST else math.inf


def _axis(name: str, given: Any) -> Axis:
    if isinstance(given, Sequence):
        return Axis(name=name, choices=tuple(given))
    if "choice" in given:
        return Axis(name=name, choices=tuple(given["choice"]))
    kind = next(kind for kind in _KINDS if kind in given)
    low, high = (number(end) or 0.0 for end in given[kind])
    step = number(given["step"]) if "step" in given else None
    return Axis(name=name, low=low, high=high, log=kind == "log", whole=kind == "int", step=step)
