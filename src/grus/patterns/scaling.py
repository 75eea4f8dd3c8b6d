"""One GPU against several for the same workload: how busy each is, how much faster it goes, what is wasted.

Only runs of the same work can be held against each other: another program, other data or another type of GPU
change the figures for reasons of their own, and then nothing is said but that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.patterns.activity import QUIET

MUCH = 0.1
"""Difference of utilisation that is worth a word."""
AT_WORK = 0.1
"""Part of the busiest GPU's utilisation above which another is at work too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a workload ran on so many GPUs of one type."""

    workload: str
    """Fingerprint of what ran, with its data."""
    type: str
    gpus: int
    utilisation: float
    """Mean over its GPUs, 0 to 1."""
    speed: float | None = None
    """Work a second (steps times batch); None where it was not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    fewer: Use
    more: Use
    speedup: float | None
    """Times as fast; None where a speed is missing."""
    efficiency: float | None
    """Speedup for each time as many GPUs: 1 if nothing is lost."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Incomparable:
    sentence: str
    """Why the two cannot be held against each other."""


def compare(one: Use, other: Use) -> Comparison | Incomparable:
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
    return Comparison(
        fewer=fewer,
        more=more,
        speedup=speedup,
        efficiency=efficiency,
        sentence=_sentence(fewer, more, speedup, efficiency),
    )


def at_work(utilisations: Sequence[float]) -> int:
    """How many GPUs of one job really work: those that do at least a tenth of what the busiest does."""
    most = max(utilisations, default=0.0)
    return sum(one > max(QUIET, AT_WORK * most) for one in utilisations)


def _sentence(fewer: Use, more: Use, speedup: float | None, efficiency: float | None) -> str:
    use = f"a GPU is {more.utilisation:.0%} busy with {more.gpus}, {fewer.utilisation:.0%} with {fewer.gpus}"
    if speedup is None or efficiency is None:
        idle = fewer.utilisation - more.utilisation > MUCH
        return f"{use}: more GPUs wait more" if idle else f"{use}: about as busy"
    lost = max(0.0, 1.0 - efficiency) * more.gpus
    return f"{use}; {speedup:.2f} times as fast, as if {lost:.1f} of them stood still"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
