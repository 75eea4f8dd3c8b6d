"""Margins learned from finished runs: the difference between their peaks and the replay.

Libraries on a GPU take workspaces that no trace on a CPU shows, and free them in an order of their own. The
runs of one model have similar errors, so a model is one observation for any number of its runs. Pure.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import stdtrit

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


@dataclass(frozen=True, slots=True)
class Margin:
    """Bytes to add to a replay."""

    typical: int
    """Margin for the estimate; from 0, since the replay is already the sum of all required memory."""
    upper: int
    """Margin for the bound that admission uses."""


WORKSPACE = 800_000_000
"""The upper margin of ten models on an RTX 3060, from the runs that were published with xMem."""
LEAST_WORKSPACE = 64 << 20
PROCESS = 128_000_000


def usual(replayed: int) -> Margin:
    """Return the margin for a type of GPU on which too few models ran.

    None of the published cases took a quarter more.
    """
    return Margin(0, min(WORKSPACE, LEAST_WORKSPACE + replayed // 4))


def usual_of_a_process(held: int) -> Margin:
    """Return the margin for a virtual GPU, which is a process.

    Nine models took 2 % to 100 % beyond their tensors, and one of convolutions between 80 and 200 MB more
    from run to run. A process keeps freed memory in pieces that are too small for the next allocation.
    """
    return Margin(held // 4, PROCESS + held * 6 // 10)


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
