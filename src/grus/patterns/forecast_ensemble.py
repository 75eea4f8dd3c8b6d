"""Guesses at the next values of a series, and their best mixture for each distance ahead.

A guess uses a single fact: the last value, a recent mean or median, the value a season ago, or the usual
value at this point of the season. The best guess is found in the past. The weights of the others beside it
are fitted by least absolute deviations, separately for each distance. The errors are those of values that the
weights were not fitted to: the past is cut into parts, and each part is tested with weights from the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

WINDOWS = (3, 8, 24, 72)
"""Lengths of the recent means, in steps."""
RECALLED = (3, 10)
"""Seasons that are looked back on for what is usual: lately, and for longer."""
RIDGE = 0.03
"""Strength of the pull to zero on weights that the past does not need, that is to the best single guess."""
ROUNDS = 6
"""Rounds of reweighting: least squares with weights 1/|error| converge to least absolute deviations."""
NEAR = 0.1
"""Part of the mean error: below it, errors count by their squares, so that rare but certain values count."""
EACH = 24
"""Distances, from the nearest on, that have weights of their own."""
PARTS = 4
"""Number of parts into which the past is cut for honest errors."""
FEWEST_OTHERS = 30
"""Moments to fit weights to; with fewer, neighbors are not left out."""
TAIL = 0.05
"""Part of the errors on either side of the interval."""
LATELY = 72
"""Steps over which it is measured how restless a series is at a moment."""
CALM = 0.5
"""Part of a series' usual restlessness that an interval allows for however quiet it is at the moment."""


@dataclass(frozen=True, slots=True)
class ForecastBand:
    """Expectation at one distance."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights of the guesses at one distance, and how far off the mixture was, in units of restlessness."""

    weights: Array
    below: float
    above: float


class SeriesHistory:
    """A series, and what of each of its moments does not depend on how far ahead one looks.

    `seasons` in steps, each of which the series holds three times or more."""

    def __init__(self, values: Array, seasons: Sequence[float]) -> None:
        self.values = values
        self.seasons = tuple(seasons)
        at = np.arange(len(values))
        sums = np.concatenate(([0.0], np.cumsum(values)))
        squares = np.concatenate(([0.0], np.cumsum(values**2)))
        windows = (*WINDOWS, *(round(season) for season in seasons))
        self.recent = [values, *(_mean(sums, at, window) for window in windows), _median(values, LATELY)]
        """The last value, the means of the last while, the median of a longer one."""
        self.usual = [_usual(values, at, season, 1)[-1] for season in seasons]
        """Usual value of each season at this point of it."""
        spread = np.sqrt(np.maximum(_mean(squares, at, LATELY) - _mean(sums, at, LATELY) ** 2, 0.0))
        self.restless: Array = CALM * spread.mean() + (1 - CALM) * spread + 1e-12
        """Scale of the errors: half the series' usual spread, and half that of the last while. A queue that
        became active this week has wider intervals than while it was inactive.
        """

    def guesses(self, at: Indices, distance: int) -> Array:
        """A row for each moment of `at`, a column for each guess at the value so far ahead."""
        columns = [each[at] for each in self.recent]
        for season, usual in zip(self.seasons, self.usual, strict=True):
            then = _usual(self.values, at + distance, season, math.ceil(distance / season))
            columns += [*then, self.values[at] + then[-1] - usual[at]]
        return np.column_stack(columns)


def ahead(
    values: Array, known: NDArray[np.bool_], steps: int, seasons: Sequence[float]
) -> list[ForecastBand]:
    """The next `steps` values. `values` has no gaps; what is not `known` was filled in and proves nothing."""
    past = SeriesHistory(values, seasons)
    marks = distances(steps)
    mixtures = [fit(past, known, mark) for mark in marks]
    last = np.array([len(values) - 1], dtype=np.int64)
    restless = float(past.restless[-1])
    found = []
    for step in range(1, steps + 1):
        mixture = _between(marks, mixtures, step)
        middle = float(past.guesses(last, step)[0] @ mixture.weights)
        found.append(
            ForecastBand(middle, middle + restless * mixture.below, middle + restless * mixture.above)
        )
    return found


def distances(steps: int) -> list[int]:
    """Return the distances at which weights are fitted: all near ones, then eight for each doubling.

    Weights between those are blended.
    """
    grid = {*range(1, EACH + 1), *(round(EACH * 2.0 ** (power / 8)) for power in range(8 * 16))}
    return sorted({mark for mark in grid if mark < steps} | {steps})


def _between(marks: Sequence[int], mixtures: Sequence[Mixture], step: int) -> Mixture:
    """Between two distances, by the logarithm."""
    right = int(np.searchsorted(marks, step))
    if marks[right] == step:
        return mixtures[right]
    near, far = mixtures[right - 1], mixtures[right]
    part = float(np.log(step / marks[right - 1]) / np.log(marks[right] / marks[right - 1]))
    return Mixture(
        (1 - part) * near.weights + part * far.weights,
        (1 - part) * near.below + part * far.below,
        (1 - part) * near.above + part * far.above,
    )


def _mean(sums: Array, at: Indices, window: int) -> Array:
    begin = np.maximum(at + 1 - window, 0)
    mean: Array = (sums[at + 1] - sums[begin]) / (at + 1 - begin)
    return mean


def _median(values: Array, window: int) -> Array:
    padded = np.concatenate((np.full(window - 1, values[0]), values))
    return np.asarray(np.median(sliding_window_view(padded, window), axis=1), dtype=np.float64)


def _usual(values: Array, at: Indices, season: float, before: int) -> list[Array]:
    """Return the value so many seasons before; the median of many seasons up to then; means of few and of
    many.

    Seasons before the first value are left out.
    """
    many = max(RECALLED)
    index = at - np.round((before + np.arange(many)) * season).astype(np.int64)[:, None]
    there = index >= 0
    found = np.where(there, values[np.maximum(index, 0)], 0.0)
    means = np.cumsum(found, axis=0) / np.maximum(np.cumsum(there, axis=0), 1)
    return [found[0], _middle(found, there), *(means[few - 1] for few in RECALLED)]


def _middle(found: Array, there: NDArray[np.bool_]) -> Array:
    """The median of each column over the rows that are there; 0 where none is."""
    order = np.sort(np.where(there, found, np.inf), axis=0)
    last = np.maximum(there.sum(axis=0) - 1, 0)
    column = np.arange(found.shape[1])
    middle = (order[last // 2, column] + order[(last + 1) // 2, column]) / 2
    return np.where(np.isfinite(middle), middle, 0.0)


def fit(past: SeriesHistory, known: NDArray[np.bool_], distance: int) -> Mixture:
    """Weights and errors at one distance, from every moment of the past that had as much behind it."""
    at = np.arange(learns_from(past.seasons), len(past.values) - distance, dtype=np.int64)
    at = at[known[at + distance]]
    columns = past.guesses(at, distance)
    wanted = past.values[at + distance]
    best = int(np.argmin(np.abs(columns - wanted[:, None]).mean(axis=0)))
    # Weights of the others beside the best one: if the past is too short to fit them, the best one stays.
    wanted = wanted - columns[:, best]
    columns = columns - columns[:, [best]]
    scale = np.sqrt((columns**2).mean(axis=0)) + 1e-12
    columns /= scale
    weights = _least_absolute(columns, wanted) / scale
    weights[best] += 1.0 - weights.sum()
    errors = _honest_errors(columns, wanted, distance) / past.restless[at]
    below, above = np.quantile(errors, (TAIL, 1 - TAIL)).tolist()
    return Mixture(weights, min(below, 0.0), max(above, 0.0))


def learns_from(seasons: Sequence[float]) -> int:
    """The first moment from which each season can be looked back on."""
    return math.ceil(max(seasons, default=0.0))


def _honest_errors(columns: Array, wanted: Array, distance: int) -> Array:
    """Errors of each part of the past by weights from the others, neighbors within `distance` left out."""
    errors = np.empty(len(wanted))
    edges = np.linspace(0, len(wanted), PARTS + 1).astype(int)
    for begin, end in pairwise(edges):
        others = np.ones(len(wanted), dtype=bool)
        others[max(0, begin - distance) : end + distance] = False
        if others.sum() < FEWEST_OTHERS:
            others[:begin] = others[end:] = True
        weights = _least_absolute(columns[others], wanted[others])
        errors[begin:end] = wanted[begin:end] - columns[begin:end] @ weights
    return errors


def _least_absolute(columns: Array, wanted: Array) -> Array:
    """Weights, none below zero, with which the columns come nearest to what was wanted."""
    # Imported here: it takes 0.3 s, which every start of a server would pay.
    from scipy.optimize import nnls

    weigh = np.ones(len(wanted))
    found = np.zeros(columns.shape[1])
    for _ in range(ROUNDS):
        weighed = columns * weigh[:, None]
        square = weighed.T @ columns
        square[np.diag_indices_from(square)] += RIDGE * np.trace(square) / len(square) + 1e-12
        root = np.linalg.cholesky(square)
        found = nnls(root.T, np.linalg.solve(root, weighed.T @ wanted))[0]
        errors = np.abs(wanted - columns @ found)
        weigh = 1 / np.maximum(errors, NEAR * np.mean(errors) + 1e-12)
    return found
