"""The rungs of a search: resources at which trials are compared, and what each trial was worth there."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from grus.model.sweeps import Goal, Rule, Stopping, Sweep
from grus.tuning.trials import TrialView

MOST_RUNGS = 32
LATEST = 0.75
"""Beyond this part of a whole trial it is not worth the pause to compare again."""
USUAL_PART = 27
"""The first rung lies at this part of a whole trial, if nobody says where. What is said earlier is chance, or
how fast it starts, and misleads the sampler too, which learns from all that never went further
(docs/tuning.md)."""


def rungs(stopping: Stopping) -> tuple[float, ...]:
    """All rungs well before the end of a whole trial, ascending; without a whole, as many as ever matter."""
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
    """Where everybody stands. Values are signed so that less is better; what is no number is infinite."""

    resources: tuple[float, ...]
    """Of the rungs and, behind them, of a whole trial."""
    values: dict[int, tuple[float, ...]]
    """Of a trial, by number: one value for each rung that it has reached."""

    def place(self, number: int) -> int:
        """The highest rung that it has reached; -1 for none."""
        return len(self.values.get(number, ())) - 1

    def at(self, rung: int) -> list[tuple[float, int]]:
        """(value, number) of all that reached the rung, best first."""
        return sorted((got[rung], number) for number, got in self.values.items() if len(got) > rung)


def ladder(sweep: Sweep, trials: Sequence[TrialView]) -> Ladder:
    whole = () if sweep.stopping.most is None else (sweep.stopping.most,)
    resources = (*rungs(sweep.stopping), *whole)
    sign = 1.0 if sweep.goal is Goal.MINIMIZE else -1.0
    return Ladder(resources, {trial.number: _values(trial, resources, sign) for trial in trials})


def _values(trial: TrialView, resources: tuple[float, ...], sign: float) -> tuple[float, ...]:
    """Of each rung the first report at or beyond it."""
    found = []
    for resource in resources:
        if trial.reached < resource:
            break
        value = trial.curve[bisect_left(trial.curve, resource, key=lambda report: report[0])][1]
        found.append(sign * value if math.isfinite(value) else math.inf)
    return tuple(found)
