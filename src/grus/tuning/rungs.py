"""Rungs of a search: resources at which trials are compared, and the value of each trial there."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from grus.model.sweep_search import Goal, Rule, Stopping, Sweep
from grus.tuning.sweep_trials import TrialView

MOST_RUNGS = 32
LATEST = 0.75
"""Part of a whole trial beyond which another comparison is not worth the pause."""
USUAL_PART = 27
"""Part of a whole trial at which the first rung lies by default. Earlier values reflect chance, or the speed
of the start, and mislead the sampler too, which learns from all trials that never went further
(docs/tuning.md).
"""


def rungs(stopping: Stopping) -> tuple[float, ...]:
    """Return all rungs well before the end of a whole trial, ascending; without a whole, as many as ever
    matter.
    """
    if stopping.rule is Rule.NONE:
        return ()
    found = []
    for power in range(MOST_RUNGS):
        resource = first_rung(stopping) * stopping.factor**power
        if stopping.most is not None and resource > LATEST * stopping.most:
            break
        found.append(resource)
    return tuple(found)


def first_rung(stopping: Stopping) -> float:
    if stopping.first is not None:
        return stopping.first
    return 1.0 if stopping.most is None else max(1.0, math.floor(stopping.most / USUAL_PART))


@dataclass(frozen=True, slots=True)
class Ladder:
    """Values of all trials at the rungs. Values are signed so that less is better; values that are not
    numbers are infinite.
    """

    resources: tuple[float, ...]
    """Progress at the rungs and, after them, of a whole trial."""
    values: dict[int, tuple[float, ...]]
    """Values of a trial, by number: one for each rung that it has reached."""

    def place(self, number: int) -> int:
        """Return the highest rung that it has reached; -1 for none."""
        return len(self.values.get(number, ())) - 1

    def at(self, rung: int) -> list[tuple[float, int]]:
        """Return (value, number) of all trials that reached the rung, best first."""
        return sorted((got[rung], number) for number, got in self.values.items() if len(got) > rung)


def ladder(sweep: Sweep, trials: Sequence[TrialView]) -> Ladder:
    whole = () if sweep.stopping.most is None else (sweep.stopping.most,)
    resources = (*rungs(sweep.stopping), *whole)
    sign = 1.0 if sweep.goal is Goal.MINIMIZE else -1.0
    return Ladder(resources, {trial.number: _values(trial, resources, sign) for trial in trials})


def _values(trial: TrialView, resources: tuple[float, ...], sign: float) -> tuple[float, ...]:
    """Return the first report at or beyond each rung."""
    found = []
    for resource in resources:
        if trial.reached < resource:
            break
        value = trial.curve[bisect_left(trial.curve, resource, key=lambda report: report[0])][1]
        found.append(sign * value if math.isfinite(value) else math.inf)
    return tuple(found)
