"""Margins learned from finished runs: the difference between their peaks and the replay.

The runs of one model have similar errors, so a model is one observation for any number of its runs. Pure.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import stdtrit

from grus.estimation.calibration import Margin

LEAST = 3
"""Number of models that must have run on a type of GPU before a margin is derived for another one."""


CERTAINTY = 0.975
"""Share of new models whose peak should stay within the upper bound: the end of the usual 95 % interval."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A finished run."""

    model: str
    gpu: str
    replayed: int
    """Bytes that the replay came to before the run."""
    peak: int
    """Bytes that the run really took at most, measured like those to be estimated."""

    @property
    def beyond(self) -> int:
        """Bytes that the run took more than the replay; below 0: less."""
        return self.peak - self.replayed


def learn(observations: Iterable[Observation], gpu: str, without: str = "") -> Margin | None:
    """The margin for a new model on this type of GPU, from all models but `without`; None: too few ran."""
    models: dict[str, list[int]] = {}
    for one in observations:
        if one.gpu == gpu and one.model != without:
            models.setdefault(one.model, []).append(one.beyond)
    if len(models) < LEAST:
        return None
    typical = statistics.median(statistics.median(values) for values in models.values())
    return Margin(max(0, round(typical)), max(0, round(_bound([max(values) for values in models.values()]))))


def _bound(values: list[int]) -> float:
    """Return the bound below which the next value stays with CERTAINTY, for one normal distribution."""
    count = len(values)
    width = float(stdtrit(count - 1, CERTAINTY)) * math.sqrt(1 + 1 / count)
    return statistics.fmean(values) + width * statistics.stdev(values)
