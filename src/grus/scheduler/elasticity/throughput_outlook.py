"""Outlook of an elastic job: its predicted speeds at other sizes, and the value of each size that follows.

An outlook is a value that a measuring component gives to the scheduler: predicted speeds at the sizes worth
trying now, the work that is left, the cost of a change. A ladder is made of it: the value of every size,
relative to the present one. Growth climbs the steepest ladders first; GPUs are taken from the jobs that lose
least by it.
"""

from bisect import bisect_right
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

UNKNOWN_LEFT = 3600.0
"""Assumed work left of a job without any data: seconds on one GPU."""
NEWS = 0.1
"""Relative change of a measurement that makes it worth publishing again."""
FIRST_SIZE = 2
"""Replicas up to which a job may grow before it was measured, if it is known to report."""
UNKNOWN_POWER = 0.9
"""Assumed speed-up without measurements: twice the GPUs give 1.87 times the speed, for any job, so that the
smallest job grows first.
"""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Predicted speed on each number of replicas, relative to one replica alone.

    `sizes` are those worth trying now: allowed, and not far beyond what was run before. `left`: seconds that
    the remaining work takes on one replica; where its end is not `known`, the time that the job has run so
    far is a good guess. `stall`: how long it stands still when its size changes, a restart included; `boot`:
    how long new GPUs do nothing while the others work.
    `attained`: GPU-seconds that it has had. `types`: how fast it is on the types of GPU that it was seen on,
    relative to each other.
    """

    sizes: tuple[int, ...]
    speeds: tuple[float, ...]
    left: float = UNKNOWN_LEFT
    stall: float = 0.0
    boot: float = 0.0
    attained: float = 0.0
    types: tuple[tuple[str, float], ...] = ()
    known: bool = True

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.speeds) or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError("sizes must ascend, and each needs a speed")

    def is_news_to(self, told: "Outlook | None") -> bool:
        """Return whether it differs enough from the published one to be worth a decision."""
        if told is None:
            return True
        if (told.sizes, told.speeds, told.types) != (self.sizes, self.speeds, self.types):
            return True
        if told.known != self.known:
            return True
        cost, before = self.stall + self.boot, told.stall + told.boot
        if abs(cost - before) > 1.0 + NEWS * before:
            return True
        return abs(self.left - told.left) > NEWS * told.left or self.attained > 2 * told.attained

    def speed_at(self, size: int) -> float:
        """Return the predicted speed on so many replicas: that of the largest size that is not above."""
        at = bisect_right(self.sizes, size) - 1
        return self.speeds[at] if at >= 0 else 0.0

    def payback(self, present: int, size: int) -> float:
        """Return the seconds after which a job that grows now has done as much as at its present size;
        infinite if never.
        """
        now, then = self.speed_at(present), self.speed_at(size)
        if then <= now:
            return inf
        return (then * (self.stall + self.boot) - now * self.boot) / (then - now)

    def until_end(self, present: int, size: int) -> float:
        """Return the mean speed from now until its end if its size changes now; with an unknown end, its
        speed then.
        """
        now, then = self.speed_at(present), self.speed_at(size)
        if present in (0, size) or not self.known or then <= 0:
            return then
        boot = self.boot if size > present else 0.0
        if self.left <= now * boot:
            return min(now, then)  # It ends before the new ones do any work.
        return self.left / (self.stall + boot + (self.left - now * boot) / then)

    def among(self, allowed: Container[int]) -> "Outlook":
        """Return the same for the sizes that are allowed."""
        kept = [(size, speed) for size, speed in zip(self.sizes, self.speeds, strict=True) if size in allowed]
        sizes, speeds = zip(*kept, strict=True) if kept else ((), ())
        return replace(self, sizes=sizes, speeds=speeds)


def unknown(sizes: tuple[int, ...]) -> Outlook:
    """Return the outlook of a job without measurements."""
    return Outlook(sizes, tuple(size**UNKNOWN_POWER for size in sizes))


class SizeStep(NamedTuple):
    """Change of size, and the gain (or loss) per replica."""

    size: int
    each: float


class Ladder:
    """Value of each size of a job. Answers are cached: equal jobs may share one ladder."""

    __slots__ = ("_prices", "_sizes", "_up", "_worth")

    def __init__(self, worth: Mapping[int, float]) -> None:
        self._worth = dict(worth)
        self._sizes = sorted(worth)
        self._up: dict[int, SizeStep | None] = {}
        self._prices: dict[tuple[int, int], float] = {}

    def worth(self, size: int) -> float:
        """Return the value of a size; without a prediction, that of the largest one below it."""
        found = self._worth.get(size)
        if found is None:
            found = max((self._worth[known] for known in self._sizes if known < size), default=0.0)
        return found

    def up(self, size: int) -> SizeStep | None:
        """Return the step up with the highest gain per replica; None if none gains anything.

        Seen from a size, this is the first step of the concave hull over it: a dip is stepped over.
        """
        if size not in self._up:
            self._up[size] = self._steepest(size)
        return self._up[size]

    def _steepest(self, size: int) -> SizeStep | None:
        here = self.worth(size)
        best: SizeStep | None = None
        for larger in self._sizes:
            if larger <= size:
                continue
            each = (self._worth[larger] - here) / (larger - size)
            if each > 0 and (best is None or each > best.each):
                best = SizeStep(larger, each)
        return best

    def loss(self, size: int, lower: int) -> float:
        """Return the loss per replica on the way down; negative if fewer do better."""
        return (self.worth(size) - self.worth(lower)) / (size - lower)

    def price(self, size: int, lower: int) -> float:
        """Return the price per replica of a step down: no less than the value of climbing again afterwards,
        or it would be bought back.
        """
        key = (size, lower)
        if key not in self._prices:
            back = self.up(lower)
            self._prices[key] = max(self.loss(size, lower), back.each if back is not None else 0.0)
        return self._prices[key]
