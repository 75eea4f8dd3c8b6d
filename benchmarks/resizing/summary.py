"""From the effects of all events on all runtimes to the figures that are printed. Pure."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.resizing.measure import Effect

OURS, TORCHRUN, DEFAULTS, TORCHFT = "grus", "torchrun", "torchrun_default", "torchft"
PREFIX = {OURS: "", TORCHRUN: "torchrun_", DEFAULTS: "torchrun_default_", TORCHFT: "torchft_"}
SHORTEST = 0.001
"""Stalls below a millisecond cannot be told from none; ratios are taken with this at least."""
Effects = dict[str, list[Effect]]
Pick = Callable[[Sequence[float]], float]


def summary(effects: Mapping[str, Effects]) -> dict[str, object]:
    stalls = {name: medians(found, lambda one: one.stall) for name, found in effects.items()}
    return {
        **{f"{PREFIX[name]}stall_s": found for name, found in stalls.items()},
        "stall_ratio": smallest_ratio(stalls, TORCHRUN),
        "torchft_ratio": smallest_ratio(stalls, TORCHFT),
        **{
            f"{PREFIX[name]}settle_s": medians(found, lambda one: one.settle)
            for name, found in effects.items()
        },
        **{f"{PREFIX[name]}steps_redone_max": most_redone(found) for name, found in effects.items()},
        "stall_s_max": medians(effects.get(OURS, {}), lambda one: one.stall, of=max),
    }


def medians(
    effects: Effects,
    figure: Callable[[Effect], float],
    of: Callable[[Sequence[float]], float] = statistics.median,
) -> dict[str, float]:
    """One figure of each event that happened at all."""
    return {event: round(of([figure(one) for one in found]), 4) for event, found in effects.items() if found}


def smallest_ratio(stalls: Mapping[str, Mapping[str, float]], other: str) -> float | None:
    """The other's stall / ours, for the event where it is smallest."""
    ours, theirs = stalls.get(OURS, {}), stalls.get(other, {})
    ratios = [max(theirs[event], SHORTEST) / max(ours[event], SHORTEST) for event in ours if event in theirs]
    return round(min(ratios), 3) if ratios else None


def most_redone(effects: Effects) -> int:
    return max((one.redone for found in effects.values() for one in found), default=0)
