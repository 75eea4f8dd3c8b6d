"""A sweep as its page and its charts see it: the search, and each trial with what it reached. Pure values."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Goal, Params, Sweep, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One trial."""

    number: int
    job: JobId
    params: Params
    phase: Phase
    held_back: bool = False
    """True if it waits until its sweep lets it continue."""
    value: float | None = None
    """Value of the metric by which it is ranked; None until it has reported a comparable value."""
    curve: tuple[tuple[float, float], ...] = ()
    """Progress and the metric at it, in order."""
    gpu_seconds: float = 0.0
    gpus: float = 0.0
    """GPUs that are allocated to it now."""
    seconds: float | None = None
    """Seconds that it ran, or has run so far; None before its start."""
    why: str = ""

    @property
    def reached(self) -> float | None:
        """Return its progress."""
        return self.curve[-1][0] if self.curve else None

    def param(self, name: str) -> Value | None:
        return next((value for known, value in self.params if known == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSnapshot:
    """All of a sweep at one moment."""

    sweep: Sweep
    trials: tuple[TrialRow, ...]
    """Trials in the order of their numbers."""
    best: int | None = None
    """Number of the best trial so far."""
    importance: tuple[tuple[str, float], ...] = ()
    """Importance of each parameter, as a part of 1; empty while too little is known."""

    @property
    def winner(self) -> TrialRow | None:
        return next((one for one in self.trials if one.number == self.best), None)


def judged(trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Those that can be compared."""
    return [one for one in trials if one.value is not None and math.isfinite(one.value)]


def better(goal: Goal, one: float, other: float) -> bool:
    return one < other if goal is Goal.MINIMIZE else one > other


def ranked(search: SweepSnapshot) -> list[TrialRow]:
    """Those that can be compared, the best first; of equal ones the earlier."""
    sign = 1 if search.sweep.goal is Goal.MINIMIZE else -1
    return sorted(judged(search.trials), key=lambda one: (sign * (one.value or 0.0), one.number))


def value_words(value: Value | None) -> str:
    """A value of a parameter or of a metric as people read it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def params_words(params: Params) -> str:
    return ", ".join(f"{name} {value_words(value)}" for name, value in params)


def place_on(axis: Axis, value: Value | None) -> float | None:
    """Return a value's place on its axis, from 0 (least) to 1 (most); None for one that is not on it."""
    if value is None:
        return None
    if axis.choices:
        places = _places(axis.choices)
        return next((at for known, at in places if known == value and type(known) is type(value)), None)
    if isinstance(value, str) or not math.isfinite(value):
        return None
    return between(axis.low, axis.high, float(value), log=axis.log)


def _places(choices: Sequence[Value]) -> list[tuple[Value, float]]:
    last = len(choices) - 1
    return [(choice, number / last if last else 0.5) for number, choice in enumerate(choices)]


def between(low: float, high: float, value: float, *, log: bool) -> float | None:
    """0 at `low`, 1 at `high`; None outside, and where there is nothing between them one half."""
    if log:
        if min(low, high, value) <= 0:
            return None
        low, high, value = math.log(low), math.log(high), math.log(value)
    if high <= low:
        return 0.5
    at = (value - low) / (high - low)
    return at if -1e-9 <= at <= 1 + 1e-9 else None


def marks(axis: Axis, most: int = 7) -> list[tuple[float, str]]:
    """Places on an axis that are labelled, and their labels."""
    if axis.choices:
        places = _places(axis.choices)
        stride = max(1, math.ceil(len(places) / most))
        return [(at, value_words(choice)) for choice, at in places[::stride]]
    return scale_marks(axis.low, axis.high, log=axis.log, whole=axis.whole)


def scale_marks(low: float, high: float, *, log: bool, whole: bool = False) -> list[tuple[float, str]]:
    """Both ends and what is between them."""
    if high <= low:
        return [(0.5, value_words(low))]
    found = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0) if not whole or high - low >= 4 else (0.0, 1.0):
        value = math.exp(math.log(low) + part * math.log(high / low)) if log else low + part * (high - low)
        shown = float(round(value)) if whole else value
        at = between(low, high, shown, log=log)
        found.append((part if at is None else at, f"{shown:.0f}" if whole else f"{shown:.3g}"))
    return found
