"""Resolution and retention of the past: tenths of seconds, seconds, minutes, tens of minutes.

Each tier is a ring: data older than its retention time, or beyond its part of the file, is deleted. Times are
whole milliseconds here, so that a moment belongs to exactly one slot of each tier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HOUR, DAY = 3600.0, 86_400.0


class Tier(NamedTuple):
    """One grid. A block is what is written and read at once: `slots` values of each series."""

    number: int
    step: int
    """Milliseconds of a slot."""
    slots: int
    part: float
    """Part of the file's bytes."""

    @property
    def span(self) -> int:
        """Milliseconds of a block."""
        return self.step * self.slots


# Each slot of a tier lies within one block of the tier before it.
FINE = Tier(0, 100, 600, 0.15)
SECONDS = Tier(1, 1000, 600, 0.50)
MINUTES = Tier(2, 60_000, 60, 0.20)
TENS = Tier(3, 600_000, 144, 0.15)
TIERS = (FINE, SECONDS, MINUTES, TENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Retention of each tier, in seconds, and maximum size of the file, in bytes."""

    fine: float = HOUR
    seconds: float = DAY
    minutes: float = 14 * DAY
    tens: float = 400 * DAY
    size: int = 1_000_000_000

    def of(self, tier: Tier) -> float:
        return (self.fine, self.seconds, self.minutes, self.tens)[tier.number]


def base(hz: float) -> Tier:
    """The tier that samples go to when they come so often."""
    return FINE if hz > 1 else SECONDS


def fitting(step: float, finest: Tier) -> Tier:
    """The coarsest tier that is no coarser than this step; the finest that there is for smaller ones."""
    there = TIERS[finest.number :]
    return next((tier for tier in reversed(there) if tier.step <= step * 1000), finest)


def reaching(back: float, keep: Keep, finest: Tier) -> Tier:
    """The finest tier that still knows what was so many seconds ago."""
    there = TIERS[finest.number :]
    return next((tier for tier in there if keep.of(tier) >= back), there[-1])


def folded(values: NDArray[np.float32], count: int, *, highest: bool) -> NDArray[np.float32]:
    """A block's values as `count` means (or maxima) of even parts; NaN for a part without any value."""
    parts = values.reshape(count, -1)
    if highest:
        return np.asarray(np.fmax.reduce(parts, axis=1), dtype=np.float32)
    there = ~np.isnan(parts)
    sums = np.where(there, parts, 0.0).sum(axis=1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / there.sum(axis=1), dtype=np.float32)


Placed = tuple[int, Tier, NDArray[np.float32]]
"""A block's first moment, its tier and its values."""


def spread(
    found: Sequence[Placed], start: int, step: int, count: int, *, highest: bool
) -> NDArray[np.float64]:
    """Blocks on a grid from `start`: means by time, or maxima."""
    places, values, weights = [], [], []
    for first, tier, block in found:
        at = first + tier.step * np.arange(tier.slots, dtype=np.int64) - start
        inside = (at >= 0) & (at < step * count) & ~np.isnan(block)
        places.append(at[inside] // step)
        values.append(block[inside].astype(np.float64))
        weights.append(np.full(len(values[-1]), float(tier.step)))
    if not places:
        return np.full(count, np.nan)
    place, value, weight = np.concatenate(places), np.concatenate(values), np.concatenate(weights)
    if highest:
        most = np.full(count, np.nan)
        np.fmax.at(most, place, value)
        return most
    with np.errstate(invalid="ignore"):
        sums = np.bincount(place, value * weight, count)
        return np.asarray(sums / np.bincount(place, weight, count), dtype=np.float64)
