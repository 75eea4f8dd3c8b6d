"""Values of the sizes of an elastic job, by which its number of GPUs is chosen.

A job's value at a size is its predicted speed-up times a weight that falls with the work it has left, less
the cost of changing its size. Nothing here knows nodes, queues or clocks.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key")
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """Weights of speed-ups, and the longest wait of a job.

    The weight is (length + offset) ** -power: with power 0 all jobs count the same, with power 1 the job that
    is done first on one GPU counts most. A speed-up counts to the power of `returns`: use 1 if lengths are
    known; less than 1 evens sizes out, for unknown lengths, when a job that scales well may also be one that
    never ends. A change has to pay within `horizon` seconds. A job that has waited for `patience` seconds
    starts before anything is weighed, and keeps its smallest size for a `turn`.
    """

    offset: float = 6000.0
    power: float = 0.6
    returns: float = 1.0
    horizon: float = 300.0
    patience: float = 1800.0
    turn: float = 60.0


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Key]):
    """A job that may be resized; `speeds[i]` is its predicted progress per second on `sizes[i]` GPUs.

    `length`: seconds its remaining work takes on one GPU; its age if that is not `known`. `present`: GPUs
    now, 0 while it waits. `stall`: seconds it stands still when its size changes. `boot`: seconds before
    new GPUs do any work. `waited`: seconds it has been waiting without any GPU. `ran`: seconds since it was
    last started.
    """

    key: Key
    sizes: tuple[int, ...]
    speeds: tuple[float, ...]
    length: float
    present: int = 0
    stall: float = 30.0
    boot: float = 0.0
    waited: float = 0.0
    ran: float = math.inf
    known: bool = True

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.speeds) or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"{self.key}: sizes must ascend and each have a speed")
        if any(size < 1 for size in self.sizes):
            raise ValueError(f"{self.key}: sizes are at least 1")

    def speed_at(self, size: int) -> float:
        """Return the predicted speed on at most so many GPUs."""
        at = bisect_right(self.sizes, size) - 1
        return self.speeds[at] if at >= 0 else 0.0


def weight(length: float, rule: Rule) -> float:
    """Return the weight of a job whose remaining work takes so many seconds on one GPU."""
    return math.exp(-rule.power * math.log(max(length, 0.0) + rule.offset))


def progress_after_change(candidate: Candidate[Key], size: int, speed: float, rule: Rule) -> float:
    """Return the mean speed from now until the change has to pay: first it stands still, then new GPUs boot,
    then they run.

    A waiting job has nothing to lose: its start never costs extra, or it might wait without end. A job of
    unknown length is assumed to run for as long again as its age, at its present speed.
    """
    present = candidate.present
    if present in (0, size) or speed <= 0:
        return speed
    boot = candidate.boot if size > present else 0.0
    cost = candidate.stall + boot
    pace = candidate.speeds[0] if candidate.known else candidate.speed_at(present)
    left = candidate.length * pace / speed
    span = min(rule.horizon, cost + left)
    if span <= cost:
        return 0.0
    return (speed * (span - cost) + candidate.speed_at(present) * boot) / span


def values(candidate: Candidate[Key], rule: Rule) -> list[float]:
    """Return the value of each of the candidate's sizes; no GPUs have value 0."""
    base = candidate.speeds[0] if candidate.speeds and candidate.speeds[0] > 0 else 1.0
    scale, bend = weight(candidate.length, rule) / base, rule.returns - 1.0
    worth = [
        scale * progress_after_change(candidate, size, speed, rule)
        for size, speed in zip(candidate.sizes, candidate.speeds, strict=True)
    ]
    if bend == 0.0:
        return worth
    speeds = [max(speed / base, TINY) for speed in candidate.speeds]
    return [value * speed**bend for value, speed in zip(worth, speeds, strict=True)]


def within_reach(sizes: Iterable[int], most_run: int, first: int = 1, factor: int = 2) -> tuple[int, ...]:
    """Return the sizes that may be tried: up to `first` before any run, then `factor` times the largest one
    run.

    Predictions far from measured sizes are guesses: a job earns large sizes by running smaller ones. The
    smallest size is always allowed.
    """
    allowed = sorted(sizes)
    most = max(first, factor * most_run)
    return tuple(size for size in allowed if size <= most) or tuple(allowed[:1])
