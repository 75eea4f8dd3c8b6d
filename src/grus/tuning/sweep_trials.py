"""Trials as a search sees them: their parameters, their progress, and their metric values.

Everything is a value made from the records, so that a search can be continued from them alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grus.model.jobs import TERMINAL, Phase
from grus.model.sweep_search import Goal, Params

Curve = tuple[tuple[float, float], ...]
"""(resource, value of the metric) in the order of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    number: int
    """Number of the trial, counted from 0 in order of creation."""
    params: Params
    phase: Phase
    curve: Curve = ()
    """Reported values of the metric, one for each report; NaN and infinity are kept."""
    gpu_seconds: float = 0.0
    """GPU-seconds held so far."""
    seconds: float = 0.0
    """Seconds run so far, in all attempts."""
    resumable: bool = False
    """True if a pause loses nothing: it saves checkpoints and resumes from them."""
    held_back: bool = False
    """Paused, or asked to pause, by its own sweep at a rung: it continues when the sweep resumes it."""
    fresh: bool = False
    """True if it was started again, and has not reported since."""
    grown: bool = False
    """True if it holds, or may hold, the size set by `grow`."""

    @property
    def ended(self) -> bool:
        return self.phase in TERMINAL

    @property
    def waiting(self) -> bool:
        """Return whether it is in the line for GPUs."""
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
        """Return whether its newest value is no longer a number."""
        return bool(self.curve) and not math.isfinite(self.curve[-1][1])


def best_value(trial: TrialView, goal: Goal) -> float | None:
    """Return the best value that it ever reported; None if it never reported a number."""
    values = [value for _, value in trial.curve if math.isfinite(value)]
    if not values:
        return None
    return min(values) if goal is Goal.MINIMIZE else max(values)


def best_trial(trials: Sequence[TrialView], goal: Goal) -> TrialView | None:
    """Return the trial with the best value ever reported; of equal ones the first."""
    known = [(value, trial) for trial in trials if (value := best_value(trial, goal)) is not None]
    if not known:
        return None
    sign = 1.0 if goal is Goal.MINIMIZE else -1.0
    return min(known, key=lambda one: (sign * one[0], one[1].number))[1]
