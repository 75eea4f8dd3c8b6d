"""Calibration of forecasts: compare forecasts with later events, and correct the next ones.

Each forecast gave every moment a chance. If forecasts are right, the chances of the moments at which the
events then happened are spread evenly over 0 to 1: half of them below 0.5, nine tenths below 0.9. If they are
not, the chances at which later forecasts are read are moved until they are (recalibration by Kuleshov, Fenner
and Ermon, 2018).

An event that has not happened yet counts with the chance that it should have by now: if only past events
counted, all late ones would be missing. Pure functions of past pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grus.simulator.forecasting.durations import Law, kaplan_meier
from grus.simulator.forecasting.quantiles import Chances

PRIOR = 40
"""Weight, in forecasts, of the belief that forecasts are right as they are."""
WINDOW = 1000
"""Number of forecasts that are examined: the last ones."""


@dataclass(frozen=True, slots=True)
class ForecastOutcome:
    """The chance that a forecast gave to what then happened; at least that, if it has not happened yet."""

    level: float
    over: bool = True


def outcome(foreseen: Chances, happened: float | None, now: float) -> ForecastOutcome:
    """Return the outcome of one forecast by now."""
    return ForecastOutcome(foreseen.level(now if happened is None else happened), happened is not None)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Accuracy of past forecasts, and the correction of the next ones."""

    settled: int
    """Forecasts of which it is known what happened."""
    p50_coverage: float | None
    """Part of the events that happened by their reported P50; 0.5 is right. None before any outcome is
    known.
    """
    p90_coverage: float | None
    law: Law

    def level(self, chance: float) -> float:
        """Return the chance at which a forecast must be read so that it is right as often as this one
        says.
        """
        return min(0.99, max(0.01, self.law.quantile(chance)))

    def read(self, foreseen: Chances, chance: float) -> float:
        """The moment by which it will have happened with this chance."""
        return foreseen.quantile(self.level(chance))


def calibrate(outcomes: Sequence[ForecastOutcome]) -> Calibration:
    """Learn from past forecasts, the last ones of these."""
    last = outcomes[-WINDOW:]
    even = (np.arange(PRIOR) + 0.5) / PRIOR
    levels = np.concatenate([even, [one.level for one in last]])
    over = np.concatenate([np.ones(PRIOR, dtype=bool), np.array([one.over for one in last], dtype=bool)])
    law = kaplan_meier(levels, over, np.ones(len(levels)), 0)
    settled = sum(one.over for one in last)
    if not settled:
        return Calibration(0, None, None, law)
    own = kaplan_meier(levels[PRIOR:], over[PRIOR:], np.ones(len(last)), 0)
    return Calibration(settled, 1.0 - own.survival(0.5), 1.0 - own.survival(0.9), law)
