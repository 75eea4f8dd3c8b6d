"""Period detection: whether evenly sampled numbers repeat, the length of a period, and the start of the last
one.

1. Gaps are bridged, extremes cut off.
2. A long series is examined twice: its newest part as it is, all of it at a coarser step.
3. Lags at which it may repeat are found and refined (`lags`).
4. Each lag is rated by the agreement of its cycles (`period_check`). The one with most evidence is the
period, or
   a part of it is, if chance would hardly ever give as much. Otherwise there is none, rather than a guess.

The shortest period that can be detected has four samples (4 s at 1 Hz, 0.4 s at 10 Hz), the longest is a
quarter of the series. docs/patterns.md has the measurements.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.patterns.autocorrelation_spectrum import DEEP, FEWEST, SHORTEST, Lags
from grus.patterns.period_check import Cycles, Evidence

Floats = NDArray[np.float64]

SAMPLES = 4096  # Largest number of samples that are examined together.
ROUNDING = 1e-9  # Part of the largest value: a smaller variation is none.
FEW = 14  # With fewer samples nothing can be detected.
EXTREME = 0.01  # Part of the samples, at either end, that counts as extreme.
SAME = 0.004  # Candidates this close are one.
PROMISING = 6  # So many candidates are folded,
LIKELY = 2  # and so many of them, those with most evidence, are examined in full.
PARTS = (3, 2)
UNEQUAL = 0.2  # Part of the repeated signal; parts of a period that differ less are periods all the same.
ENOUGH = 11.0  # Evidence, above what the choice among more periods of more cycles gives by chance.
ALIKE = 0.3  # Three quarters of the cycles are at least as like the others. Stray bursts are not.
APART = 0.3  # Cycles that are more like every second or third one are parts of a longer period.
NEARLY = 0.9  # Evidence for a part of the period; jitter takes a little of it.
HINT = 4.0  # Evidence that parts of a period are different, without any other evidence for it.
MATTERS = 0.5  # A slower period is reported if it swings at least this much of the faster one.
ECHOING, ECHO = 6.5, 0.04  # Multiple of a faster period, and tolerance, at which it is that period again.
SURE = 6.0  # Evidence beyond enough that halves the doubt.


@dataclass(frozen=True, slots=True)
class Rhythm:
    period: float
    """Seconds."""
    confidence: float
    """0 to 1: a half with just enough evidence."""
    boundary: float
    """The latest moment, in the clock of the samples, at which a period began: work resumed after a pause."""

    def next_boundary(self, now: float) -> float:
        """Return the start of the next period, at `now` or later."""
        return self.boundary + math.ceil((now - self.boundary) / self.period) * self.period


@dataclass(frozen=True, slots=True)
class DetectedPeriod:
    """A period with its evidence."""

    rhythm: Rhythm
    evidence: Evidence
    swing: float
    """Standard deviation of the mean cycle, in the unit of the samples."""


def rhythm(values: Floats, step: float, *, start: float = 0.0) -> Rhythm | None:
    """Find the period of samples `step` seconds apart, the first at `start`; NaN is a gap. None: none was
    seen.
    """
    count = len(values)
    looks = [look(values[-SAMPLES:], step, start=start + max(0, count - SAMPLES) * step)]
    if count > SAMPLES:
        by = -(-count // SAMPLES)
        rest = count % by
        looks.append(look(coarsened(values[rest:], by), step * by, start=start + (rest + by - 0.5) * step))
    best = told(looks)
    return best.rhythm if best else None


def look(values: Floats, step: float, *, start: float = 0.0) -> DetectedPeriod | None:
    """Find the period of one series of moderate length, at its own step."""
    known = np.isfinite(values)
    if np.count_nonzero(known) < max(FEW, len(values) / 2):
        return None
    series = tamed(values, known)
    spread = float(series.std())
    if spread <= ROUNDING * float(np.abs(values[known]).max()):
        return None
    series /= spread
    cycles, lags = Cycles(series, known), Lags.of(series)
    likely = sorted(periods(lags), key=cycles.weight, reverse=True)[:LIKELY]
    polished = [cycles.polished(period) for period in likely]
    judged = [(period, cycles.evidence(period)) for period in likely + polished]
    sound = [each for each in judged if holds(each[1])]
    if not sound:
        return None
    period, evidence = fundamental(*max(sound, key=lambda each: each[1].weight), cycles, lags)
    boundary = start + (cycles.boundary(period) - 0.5) * step
    sure = 1 - 0.5 ** (1 + margin(evidence) / SURE)
    return DetectedPeriod(Rhythm(period * step, sure, boundary), evidence, evidence.swing * spread)


def periods(lags: Lags) -> list[float]:
    """Return the candidate periods, refined, each once."""
    found = list[float]()
    for period in lags.refined(lags.candidates()):
        known = any(abs(period / other - 1) < SAME for other in found)
        if not known and SHORTEST <= period <= len(lags.likeness) / FEWEST:
            found.append(period)
    return found[:PROMISING]


def holds(evidence: Evidence) -> bool:
    """Return whether it is a period, or a part or multiple of one."""
    return margin(evidence) >= 0 and evidence.alike >= ALIKE and evidence.apart <= APART


def margin(evidence: Evidence) -> float:
    """Evidence beyond what is enough. There are as many distinguishable periods as there are cycles."""
    return evidence.weight - ENOUGH - math.log(max(1, evidence.cycles))


def fundamental(period: float, evidence: Evidence, cycles: Cycles, lags: Lags) -> tuple[float, Evidence]:
    """Return the true period: this one, or a part or multiple of it.

    A part, if its cycles agree about as well and nothing distinguishes them. A multiple, if each second cycle
    clearly differs: a pass over the data, say, and an evaluation.
    """
    for part in PARTS:
        shorter = cycles.polished(period / part)
        if possible(shorter, lags) and cycles.weight(shorter) > NEARLY * evidence.weight:
            closer = cycles.evidence(shorter)
            if holds(closer) and not differ(period, part, cycles, HINT):
                return shorter, closer
    longer = cycles.polished(2 * period)
    if possible(longer, lags) and differ(longer, 2, cycles, 2 * ENOUGH):
        wider = cycles.evidence(longer)
        if holds(wider):
            return longer, wider
    return period, evidence


def possible(period: float, lags: Lags) -> bool:
    """Return whether it has enough samples and cycles, and the series differs less from itself a period
    later.
    """
    count = len(lags.likeness)
    return SHORTEST <= period <= count / FEWEST and bool(lags.depth(np.array([period]))[0] > DEEP)


def differ(period: float, parts: int, cycles: Cycles, enough: float) -> bool:
    """Return whether the parts of the period differ by more than a trifle."""
    weight, share = cycles.unequal(period, parts)
    return share >= UNEQUAL and weight >= enough


def told(looks: Iterable[DetectedPeriod | None]) -> DetectedPeriod | None:
    """Choose among the periods at several scales, fastest first, the one to report: the slowest that matters.

    An epoch is worth more than its steps. A fast period averaged to a coarser step may itself look like a
    slow one, but it hardly swings. One that is the same, or a few times as long, is the fast one, seen less
    well.
    """
    found = list[DetectedPeriod]()
    for each in looks:
        if each is not None and not any(echoes(each, other) for other in found):
            found.append(each)
    most = max((each.swing for each in found), default=0.0)
    return next((each for each in reversed(found) if each.swing >= MATTERS * most), None)


def echoes(slow: DetectedPeriod, fast: DetectedPeriod) -> bool:
    """Return whether the slower period is the faster one again."""
    times = slow.rhythm.period / fast.rhythm.period
    return times < ECHOING and abs(times / max(1, round(times)) - 1) < ECHO


def tamed(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return the series without its mean and slope, gaps bridged by lines.

    The few extremes are cut to the range of the other values.
    """
    moments = np.arange(len(values))
    bridged = np.interp(moments, moments[known], values[known])
    low, high = np.quantile(values[known], [EXTREME, 1 - EXTREME])
    if len(values) * EXTREME >= 2 and high > low:
        bridged = np.clip(bridged, low, high)
    centred = moments - moments.mean()
    slope = (centred @ bridged) / max(1.0, centred @ centred)
    return np.asarray(bridged - bridged.mean() - slope * centred)


def coarsened(values: Floats, by: int) -> Floats:
    """Means of `by` samples and the next, nearer ones counting more; there is a multiple of `by`.

    The triangle lets through much less of what is faster than the new step than plain means would.
    """
    known = np.isfinite(values)
    blocks, there = np.where(known, values, 0.0).reshape(-1, by), known.reshape(-1, by).astype(np.float64)
    up = (np.arange(by) + 0.5) / by
    sums = blocks[:-1] @ up + blocks[1:] @ up[::-1]
    parts = there[:-1] @ up + there[1:] @ up[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(parts > by / 2, sums / parts, np.nan)
