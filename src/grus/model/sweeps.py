"""A search for good parameters: what may be tried, by which figure it is judged, and when it has been enough.

A sweep is a job without workers of its own. Its spec is the template of its trials, which are ordinary jobs.
"""

from dataclasses import dataclass
from enum import StrEnum

from grus.model.identifiers import JobId

Value = bool | int | float | str
"""Of a parameter."""
Params = tuple[tuple[str, Value], ...]


class Goal(StrEnum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class Rule(StrEnum):
    """How trials that promise little are ended early."""

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
    """Whether its orders of magnitude are alike, not its differences."""
    step: float | None = None
    """Of a number that is a multiple of it, counted from `low`; 1 or more for whole ones."""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    rule: Rule = Rule.AUTO
    by: str = "step"
    """The reported figure that says how far a trial is: its resource."""
    first: float | None = None
    """Resource at the first rung; None for a part of a whole trial's."""
    most: float | None = None
    """Resource of a whole trial; None for as long as its program runs."""
    factor: int = 3
    """One of so many goes on to the next rung, which lies so many times as far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the whole search may take; whichever is reached first ends it. None is without limit."""

    trials: int | None = None
    gpu_seconds: float | None = None
    seconds: float | None = None
    target: float | None = None
    """A value of the metric that is good enough."""
    trial_gpu_seconds: float | None = None
    """What one trial may take; one that takes more is ended, and counts with what it reached."""


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
    """What a trial may hold once it is among the best, as `resources.gpu` is written; empty for no change."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Which trial of which sweep a job is."""

    sweep: JobId
    number: int
    by: str = ""
    """The reported figure that says how far it is; empty where nobody waits for it."""
    rungs: tuple[float, ...] = ()
    """How far it is when it is to be heard at once, ascending."""
