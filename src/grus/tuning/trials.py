"""What a search knows of its trials: their parameters, how far each has come, and how well it does.

Everything is a value made from the records, so that a search can be continued from them alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grus.model.jobs import TERMINAL, Phase
from grus.model.sweeps import Goal, Params

Curve = tuple[tuple[float, float], ...]
"""(resource, value of the metric) in the order of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    number: int
    """Counted from 0 in the order of their making."""
    params: Params
    phase: Phase
    curve: Curve = ()
    """What it reported of the metric, as often as it did; NaN and infinity are kept."""
    gpu_seconds: float = 0.0
    """That it held so far."""
    seconds: float = 0.0
    """That it has run so far, in all attempts."""
    resumable: bool = False
    """Whether a pause loses nothing: it saves itself and goes on where it was."""
    held_back: bool = False
    """Paused, or asked to pause, by its own sweep at a rung: it runs on when the sweep says so."""
    fresh: bool = False
    """Started again, and not heard of since."""
    grown: bool = False
    """Whether it holds, or may hold, what `grow` says."""

    @property
    def ended(self) -> bool:
        return self.phase in TERMINAL

    @property
    def waiting(self) -> bool:
        """Whether it is in the line for GPUs."""
        return not self.held_back and self.phase in (Phase.PENDING, Phase.STARTING, Phase.PAUSED)

    @property
    def running(self) -> bool:
        return not self.held_back and self.phase in (Phase.RUNNING, Phase.PAUSING)

    @property
    def reached(self) -> float:
        """Resource of its newest report; 0 before the first."""
        return self.curve[-1][0] if self.curve else 0.0

    @property
    def diverged(self) -> bool:
        """Whether its newest value is no number any more."""
        return bool(self.curve) and not math.isfinite(self.curve[-1][1])


def best_value(trial: TrialView, goal: Goal) -> float | None:
    """The best that it ever reported; None if it never reported a number."""
    values = [value for _, value in trial.curve if math.isfinite(value)]
    if not values:
        return None
    return min(values) if goal is Goal.MINIMIZE else max(values)


def best_trial(trials: Sequence[TrialView], goal: Goal) -> TrialView | None:
    """The trial with the best value ever reported; of equal ones the first."""
    known = [(value, trial) for trial in trials if (value := best_value(trial, goal)) is not None]
    if not known:
        return None
    sign = 1.0 if goal is Goal.MINIMIZE else -1.0
    return min(known, key=lambda one: (sign * one[0], one[1].number))[1]
