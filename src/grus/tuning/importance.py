"""Parameter importance: the part of the difference between trials that each parameter explains by itself.

Trials are ordered by a parameter's value and cut into groups of about equal size (or by choice). The part of
the variance of ranks that lies between the groups, less the part expected by chance, is the parameter's share
(the adjusted correlation ratio). Ranks are used so that a single failed trial does not dominate.
"""

import math
from collections.abc import Sequence

import numpy as np

from grus.model.jobs import Phase
from grus.model.sweep_search import Axis, Goal, Rule, Sweep
from grus.tuning.learning_curve import continued
from grus.tuning.ranking import ranks, smaller
from grus.tuning.rungs import ladder
from grus.tuning.sweep_trials import TrialView, best_value

LEAST = 8
"""Minimum number of trials for an importance."""
FEWEST_GROUPS = 3
"""Minimum number of groups of a range. A parameter that is best in the middle and worse on both sides looks
alike in two halves.
"""


def importance(sweep: Sweep, trials: Sequence[TrialView]) -> tuple[tuple[str, float], ...]:
    """Return (name, from 0 to 1) of every parameter, the most important first; empty with too few trials."""
    values = worth(sweep, trials)
    known = [trial for trial in trials if trial.number in values]
    if len(known) < LEAST:
        return ()
    reached = ranks([values[trial.number] for trial in known])
    found = [(axis.name, _explained(_groups(axis, known), reached)) for axis in sweep.axes]
    return tuple(sorted(found, key=lambda one: (-one[1], one[0])))


def worth(sweep: Sweep, trials: Sequence[TrialView]) -> dict[int, float]:
    """Return the value of each trial by number, less is better, wherever it was ended; diverged trials are
    infinite.

    One that completed, or that the rule lets complete, counts with the best value that it reported.
    """
    sign = 1.0 if sweep.goal is Goal.MINIMIZE else -1.0
    found = {} if sweep.stopping.rule is Rule.NONE else continued(ladder(sweep, trials))
    for trial in trials:
        value = best_value(trial, sweep.goal)
        if trial.diverged:
            found[trial.number] = math.inf
        elif value is not None and (sweep.stopping.rule is Rule.NONE or trial.phase is Phase.SUCCEEDED):
            found[trial.number] = sign * value
    return found


def _groups(axis: Axis, trials: Sequence[TrialView]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the group of each trial."""
    values = [dict(trial.params)[axis.name] for trial in trials]
    if axis.choices:
        return np.array([axis.choices.index(value) for value in values])
    groups = max(FEWEST_GROUPS, min(8, len(trials) // 5))
    below = smaller([float(value) for value in values])
    return np.minimum((below * groups / len(trials)).astype(np.int64), groups - 1)


def _explained(
    groups: np.ndarray[tuple[int], np.dtype[np.int64]], ranks: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    whole = float(np.sum((ranks - ranks.mean()) ** 2))
    kinds = np.unique(groups)
    if whole <= 0.0 or len(kinds) < 2 or len(ranks) <= len(kinds):
        return 0.0
    means = [(np.sum(groups == kind), ranks[groups == kind].mean()) for kind in kinds]
    between = float(sum(count * (mean - ranks.mean()) ** 2 for count, mean in means))
    within = (whole - between) / (len(ranks) - len(kinds))
    return max(0.0, (between - (len(kinds) - 1) * within) / whole)
