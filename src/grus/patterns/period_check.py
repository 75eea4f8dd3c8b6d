"""Test of a candidate period: the series is cut into cycles of that length, which are compared.

If the series repeats itself, the cycles look alike: each of their harmonics has the same phase in every
cycle. If it does not, the phases are random, *for any spectrum of the noise*, since cycles are compared at
the same harmonic only. For B random cycles the share of a harmonic's power that is common to all, its
coherence c, is above x with probability (1 − x)^(B − 1); so −(B − 1)·ln(1 − c) is exponentially distributed,
its sum over harmonics and groups of cycles has a gamma distribution, and evidence can be expressed in plain
probabilities.

The true period wins against its parts and multiples by itself: with half of it every second cycle differs,
and with twice of it there are half as many cycles to agree.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from grus.patterns.autocorrelation_spectrum import FEWEST

Floats = NDArray[np.float64]
Harmonics = NDArray[np.complex128]
Number = TypeVar("Number", bound=np.generic)

PHASES = 32  # Parts of a cycle that are distinguished.
HARMONICS = np.array([1, 2, 3, 4, 6, 8, 12])  # Numbers of harmonics taken together: the best one counts.
GROUPS = (10, 5)  # Cycles that must agree: jitter takes those further away out of step.
CYCLES = 4  # With fewer there is no evidence.
CERTAIN = 0.9999  # More coherence than this is rounding.
TRIFLE = 0.001  # Part of the series' standard deviation, which is 1: a smaller swing is none.
VANISHING = 1e-280  # Smaller probabilities are lost to rounding; an expansion takes over.
POLISHING = 3  # Harmonics that are seen to move without turning all the way round.
LATEST = 8  # Cycles from which the start of a period is estimated.
SUDDEN = 1.5  # Ratio of a fall to the rise above which a period begins with the fall.


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for a period."""

    weight: float
    """−ln of the probability that cycles of chance agree as well."""
    cycles: int
    alike: float
    """Correlation of a cycle with the others of its group: three quarters have at least this."""
    latest: float
    """The same of the last two cycles, the better of them: whether it is still so."""
    swing: float
    """Standard deviation of the mean cycle, as part of the series'."""
    apart: float
    """Excess of a cycle's likeness to the second or third after it over its likeness to the next."""


NOTHING = Evidence(0.0, 0, 0.0, 0.0, 0.0, 0.0)


class Cycles:
    """A series of variance 1, ready to be folded at any period in samples; guessed where not `known`."""

    def __init__(self, series: Floats, known: NDArray[np.bool_]) -> None:
        self._count = len(series)
        self._moments = np.arange(self._count + 1)
        self._total = np.concatenate([[0.0], np.cumsum(series)])
        self._known = None if known.all() else np.concatenate([[0.0], np.cumsum(known)])
        self._folded = dict[float, tuple[Floats, Harmonics]]()

    def weight(self, period: float) -> float:
        """Return the weight of the evidence for it, with the grouping of cycles that gives the most
        evidence.
        """
        return max(weighed(self._cycles(period)[1]).values(), default=0.0)

    def evidence(self, period: float) -> Evidence:
        """Return all evidence for it."""
        rows, harmonics = self._cycles(period)
        weights = weighed(harmonics)
        if not weights:
            return NOTHING
        groups = max(weights, key=lambda count: weights[count])
        alike = likeness(grouped(rows, groups))
        return Evidence(
            weight=weights[groups],
            cycles=len(rows),
            alike=float(np.sort(alike, axis=None)[alike.size // 4]),
            latest=float(alike.ravel()[-2:].max()),
            swing=float(grouped(rows, groups).mean(axis=1).std(axis=1).mean()),
            apart=max(0.0, *(following(rows, after) - following(rows, 1) for after in (2, 3))),
        )

    def polished(self, period: float) -> float:
        """The period by how far the phases of its first harmonics move from each cycle to the next."""
        if self._count < CYCLES * period:
            return period
        harmonics = self._cycles(period)[1][:, :POLISHING]
        turned = np.sum(harmonics[1:] * harmonics[:-1].conj(), axis=0)
        numbers = np.arange(1, len(turned) + 1)
        weights = np.abs(turned) * numbers
        late = float(weights @ np.angle(turned)) / max(float(weights @ numbers), 1e-30) / (2 * np.pi)
        return period * (1 - late)

    def unequal(self, period: float, parts: int) -> tuple[float, float]:
        """Measure whether the parts of a period differ from each other, each time in the same way.

        Return the evidence for that, and the share of the repeated signal that differs, from 0 to 1: the
        harmonics of the period that are not harmonics of its part.
        """
        harmonics = self._cycles(period)[1]
        if len(harmonics) < CYCLES:
            return 0.0, 0.0
        groups = max(1, round(len(harmonics) / GROUPS[0]))
        told, common = coherence(harmonics[:, : 2 * parts], groups)
        own = np.arange(1, len(told) + 1) % parts != 0
        weight = surprise(np.array([groups * np.count_nonzero(own)]), told[own].sum(keepdims=True))
        return float(weight[0]), float(common[own].sum() / max(common.sum(), 1e-30))

    def boundary(self, period: float) -> float:
        """Return the start of the latest period, in samples since the start of the series.

        A period begins when work resumes: at the steepest rise of the mean cycle, unless it falls much more
        steeply, as a load does that grows through each period.
        """
        cycle = self._cycles(period)[0][-LATEST:].mean(axis=0)
        reach = max(1, len(cycle) // 8)
        turns = np.concatenate([cycle[-reach:], cycle, cycle[:reach]])
        sums = np.concatenate([[0.0], np.cumsum(turns)])
        after = sums[2 * reach : 2 * reach + len(cycle)] - sums[reach : reach + len(cycle)]
        before = sums[reach : reach + len(cycle)] - sums[: len(cycle)]
        change = after - before
        if -change.min() > SUDDEN * change.max():
            change = -change
        return self._count - period + period * float(np.argmax(change)) / len(cycle)

    def _cycles(self, period: float) -> tuple[Floats, Harmonics]:
        """The cycles, level, and their harmonics."""
        if period not in self._folded:
            rows = level(self._fold(period))
            self._folded[period] = rows, transformed(rows)
        return self._folded[period]

    def _fold(self, period: float) -> Floats:
        """A row for each cycle, the last one ends with the series; less those of which half is not known."""
        cycles = int(self._count / period)
        if self._count >= FEWEST * period > FEWEST * self._count / CYCLES:
            cycles, period = CYCLES, self._count / CYCLES
        phases = int(min(PHASES, max(4.0, period)))
        edges = self._count - period * cycles + period / phases * np.arange(cycles * phases + 1)
        sums = np.diff(np.interp(edges, self._moments, self._total))
        rows: Floats = sums.reshape(cycles, phases) * (phases / period)
        if self._known is not None:
            rows = rows[np.diff(np.interp(edges[::phases], self._moments, self._known)) > period / 2]
        return rows


def level(rows: Floats) -> Floats:
    """Cycles without their mean and without the slope that leads from the one before to the one after."""
    means = rows.mean(axis=1)
    around = np.concatenate([2 * means[:1] - means[1:2], means, 2 * means[-1:] - means[-2:-1]])
    slopes = (around[2:] - around[:-2]) / 2
    phases = (np.arange(rows.shape[1]) + 0.5) / rows.shape[1] - 0.5
    return np.asarray(rows - means[:, None] - slopes[:, None] * phases)


def grouped(rows: NDArray[Number], groups: int) -> NDArray[Number]:
    """Rows in so many groups of equal size; the oldest that are left over are dropped."""
    size = len(rows) // groups
    return rows[len(rows) - groups * size :].reshape(groups, size, -1)


def weighed(harmonics: Harmonics) -> dict[int, float]:
    """Evidence of cycles by the number of groups into which they are put; empty with too few of them."""
    weights = dict[int, float]()
    if len(harmonics) < CYCLES:
        return weights
    for count in {max(1, round(len(harmonics) / size)) for size in GROUPS}:
        told = coherence(harmonics, count)[0].cumsum()
        taken = HARMONICS[: int(np.searchsorted(HARMONICS, len(told), side="right"))]
        weights[count] = float(surprise(count * taken, told[taken - 1]).max(initial=0.0))
    return weights


def transformed(rows: Floats) -> Harmonics:
    """The harmonics of each cycle, from the first; that of two samples has no phase and is left out."""
    harmonics = np.fft.rfft(rows, axis=1, norm="forward")
    return harmonics[:, 1 : (rows.shape[1] - 1) // 2 + 1][:, : HARMONICS[-1]]


def coherence(harmonics: Harmonics, groups: int) -> tuple[Floats, Floats]:
    """Return, for each harmonic over all groups, the evidence of its coherence and the power common to
    cycles.
    """
    size = len(harmonics) // groups
    power = harmonics.real**2 + harmonics.imag**2 + TRIFLE**2
    together = grouped(harmonics, groups).sum(axis=1)
    common = (together.real**2 + together.imag**2) / size
    share = common / grouped(power, groups).sum(axis=1)
    told = -(size - 1) * np.log1p(-np.minimum(share, CERTAIN))
    return told.sum(axis=0), common.sum(axis=0)


def surprise(shape: NDArray[np.int_], value: Floats) -> Floats:
    """−ln of the probability that a gamma variable of this shape is above `value`."""
    # Imported here: it takes 0.25 s, which every start of a server would pay.
    from scipy.special import gammaincc, gammaln

    chance = gammaincc(shape, value)
    if chance.min() > VANISHING:
        return np.asarray(-np.log(chance))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = value + gammaln(shape) - (shape - 1) * np.log(value) + np.log1p((1 - shape) / value)
        return np.asarray(np.where(chance > VANISHING, -np.log(chance), tail))


def likeness(groups: Floats) -> Floats:
    """Correlation of each cycle with the mean of the others in its group, by group and cycle."""
    others = (groups.sum(axis=1, keepdims=True) - groups) / (groups.shape[1] - 1)
    product = np.mean(others * groups, axis=2)
    power = np.mean(others**2, axis=2) * np.mean(groups**2, axis=2)
    return np.asarray(product / (np.sqrt(power) + TRIFLE**2))


def following(rows: Floats, after: int) -> float:
    """Correlation of cycles with those so many later."""
    earlier, later = rows[:-after], rows[after:]
    return float(np.sum(earlier * later) / np.sqrt(max(np.sum(earlier**2) * np.sum(later**2), 1e-30)))
