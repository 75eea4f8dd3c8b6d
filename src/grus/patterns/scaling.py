"""One GPU against several for the same workload: how busy each is, how much faster it goes, what is wasted.

Only runs of the same work can be held against each other: another program, other data or another type of GPU
change the figures for reasons of their own, and then nothing is said but that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.patterns.activity_bursts import QUIET

MUCH = 0.1
"""Difference of utilization that is worth a remark."""
AT_WORK = 0.1
"""Part of the busiest GPU's utilization above which another is at work too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Performance of a workload on a number of GPUs of one type."""

    workload: str
    """Fingerprint of what ran, with its data."""
    type: str
    gpus: int
    utilisation: float
    """Mean over its GPUs, 0 to 1."""
    speed: float | None = None
    """Work per second (steps times batch); None if it was not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingComparison:
    fewer: ScalingPoint
    more: ScalingPoint
    speedup: float | None
    """Times as fast; None where a speed is missing."""
    efficiency: float | None
    """Speedup for each time as many GPUs: 1 if nothing is lost."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Incomparable:
    sentence: str
    """The reason why the two cannot be compared."""


def compare(one: ScalingPoint, other: ScalingPoint) -> ScalingComparison | Incomparable:
    """The same workload on fewer and on more GPUs."""
    if one.workload != other.workload:
        return Incomparable("these are not the same work: another program, command or data")
    if one.type != other.type:
        return Incomparable(f"they ran on other GPUs: {one.type} and {other.type}")
    if one.gpus == other.gpus:
        return Incomparable(f"both ran on {_gpus(one.gpus)}")
    fewer, more = sorted((one, other), key=lambda use: use.gpus)
    speedup = more.speed / fewer.speed if fewer.speed and more.speed else None
    efficiency = speedup * fewer.gpus / more.gpus if speedup is not None else None
    return ScalingComparison(
        fewer=fewer,
        more=more,
        speedup=speedup,
        efficiency=efficiency,
        sentence=_sentence(fewer, more, speedup, efficiency),
    )


def at_work(utilisations: Sequence[float]) -> int:
    """Count the GPUs of one job that really work: at least a tenth of the busiest one's utilization."""
    most = max(utilisations, default=0.0)
    return sum(one > max(QUIET, AT_WORK * most) for one in utilisations)


def _sentence(
    fewer: ScalingPoint, more: ScalingPoint, speedup: float | None, efficiency: float | None
) -> str:
    use = f"a GPU is {more.utilisation:.0%} busy with {more.gpus}, {fewer.utilisation:.0%} with {fewer.gpus}"
    if speedup is None or efficiency is None:
        idle = fewer.utilisation - more.utilisation > MUCH
        return f"{use}: more GPUs wait more" if idle else f"{use}: about as busy"
    lost = max(0.0, 1.0 - efficiency) * more.gpus
    return f"{use}; {speedup:.2f} times as fast, as if {lost:.1f} of them stood still"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
