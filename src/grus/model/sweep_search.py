"""Sweep: a search for good parameters, with its search space, its metric, and its budget.

A sweep is a job without workers of its own. Its spec is the template of its trials, which are ordinary jobs.
"""

from dataclasses import dataclass
from enum import StrEnum

from grus.model.identifiers import JobId

Value = bool | int | float | str
"""Value of a parameter."""
Params = tuple[tuple[str, Value], ...]


class Goal(StrEnum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class Rule(StrEnum):
    """Rule for the early stopping of trials with poor prospects."""

    AUTO = "auto"
    """ASHA that believes a comparison as far as it has foretold the next one."""
    NONE = "none"
    MEDIAN = "median"
    ASHA = "asha"
    HYPERBAND = "hyperband"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One parameter: one of `choices`, or a number from `low` to `high`, both included."""

    name: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """True if its values are spaced by order of magnitude, not by difference."""
    step: float | None = None
    """Step of a number that is a multiple of it, counted from `low`; 1 or more for whole ones."""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    rule: Rule = Rule.AUTO
    by: str = "step"
    """Reported metric that measures a trial's progress: its resource."""
    first: float | None = None
    """Resource at the first rung; None for a part of a whole trial's."""
    most: float | None = None
    """Resource of a whole trial; None for as long as its program runs."""
    factor: int = 3
    """Reduction factor: one of so many trials continues to the next rung, at so many times the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Budget of the whole search; the limit that is reached first ends it. None is without limit."""

    trials: int | None = None
    gpu_seconds: float | None = None
    seconds: float | None = None
    target: float | None = None
    """A value of the metric that is good enough."""
    trial_gpu_seconds: float | None = None
    """Budget of one trial; a trial that exceeds it is ended, and counts with its result so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    axes: tuple[Axis, ...]
    metric: str
    goal: Goal = Goal.MINIMIZE
    sampler: str = "tpe"
    """tpe, gp, random or grid."""
    seed: int = 0
    stopping: Stopping = Stopping()
    budget: Budget = Budget()
    parallel: int | None = None
    """Trials at once, at most; None for as many as the pool takes."""
    patience: float | None = None
    """Seconds after which a running trial that never reported the metric is ended."""
    grow: str = ""
    """Allocation allowed to a trial once it is among the
    best, written as `resources.gpu`; empty for no change.
    """


@dataclass(frozen=True, slots=True)
class Trial:
    """Trial of a sweep: the identity of a job within it."""

    sweep: JobId
    number: int
    by: str = ""
    """Reported metric that measures its progress; empty where none is waited for."""
    rungs: tuple[float, ...] = ()
    """Progress values at which it is to report at once, ascending."""
