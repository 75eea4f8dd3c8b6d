"""Guesses at the next values of a series, and their best mixture for each distance ahead.

A guess is what somebody would say who knows one thing: the last value, the mean of the last while, what it
was a season ago, what it usually is at this point of the season. How much each is worth is read off the past
by least absolute deviations, apart for each distance. The errors are those of values that the weights were
not fitted to: the past is cut into parts, and each part is judged by weights from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

WINDOWS = (3, 8, 24, 72)
"""Lengths of the recent means, in steps."""
RECALLED = 4
"""Seasons that are looked back on for what is usual."""
RIDGE = 1e-3
"""How far weights that the past does not need are pulled to zero, that is to the last value."""
ROUNDS = 8
"""Of reweighting: least squares with weights 1/|error| come to least absolute deviations."""
PARTS = 4
"""That the past is cut into for honest errors."""
TAIL = 0.05
"""Part of the errors on either side of the interval."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is expected at one distance."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights of the guesses at one distance, and how far off the mixture was: lower and upper error."""

    weights: Array
    below: float
    above: float


def ahead(values: Array, known: NDArray[np.bool_], steps: int, seasons: Sequence[float]) -> list[Ahead]:
    """The next `steps` values. `values` has no gaps; what is not `known` was filled in and proves nothing.

    `seasons` in steps, each of which the series holds three times or more.
    """
    marks = distances(steps)
    mixtures = [fit(values, known, mark, seasons) for mark in marks]
    last = np.array([len(values) - 1], dtype=np.int64)
    found = []
    for step in range(1, steps + 1):
        mixture = _between(marks, mixtures, step)
        guessed = guesses(values, last, step, seasons)[0]
        middle = float(values[-1] + guessed @ mixture.weights)
        found.append(Ahead(middle, middle + mixture.below, middle + mixture.above))
    return found


def distances(steps: int) -> list[int]:
    """The distances at which weights are fitted, three for each doubling; between them they are blended."""
    grid = {round(2.0 ** (power / 3)) for power in range(3 * 20)}
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


def guesses(values: Array, at: Indices, distance: int, seasons: Sequence[float]) -> Array:
    """A row for each moment of `at`, a column for each guess: how far it is from the value at that moment."""
    last = values[at]
    sums = np.concatenate(([0.0], np.cumsum(values)))
    columns = [_recent(sums, at, window) for window in WINDOWS]
    for season in seasons:
        first = int(np.ceil(distance / season))
        then = _usual(values, at + distance, season, first)
        now = _usual(values, at, season, 1)
        columns += [then[0], then.mean(axis=0), last + then.mean(axis=0) - now.mean(axis=0)]
        columns.append(_recent(sums, at, round(season)))
    return np.column_stack(columns) - last[:, None]


def _recent(sums: Array, at: Indices, window: int) -> Array:
    begin = np.maximum(at + 1 - window, 0)
    mean: Array = (sums[at + 1] - sums[begin]) / (at + 1 - begin)
    return mean


def _usual(values: Array, at: Indices, season: float, first: int) -> Array:
    """What was there so many seasons before, and the seasons before that; the earliest there is stands in."""
    rows = []
    for back in range(first, first + RECALLED):
        index = at - round(back * season)
        rows.append(np.where(index >= 0, values[np.maximum(index, 0)], np.nan))
    found = np.array(rows)
    for row in range(1, len(found)):
        found[row] = np.where(np.isnan(found[row]), found[row - 1], found[row])
    return found


def fit(values: Array, known: NDArray[np.bool_], distance: int, seasons: Sequence[float]) -> Mixture:
    begin = round(max(seasons, default=0.0))
    at = np.arange(begin, len(values) - distance, dtype=np.int64)
    at = at[known[at + distance]]
    columns = guesses(values, at, distance, seasons)
    wanted = values[at + distance] - values[at]
    scale = np.sqrt((columns**2).mean(axis=0)) + 1e-12
    columns = columns / scale
    weights = _least_absolute(columns, wanted)
    errors = np.sort(_honest_errors(columns, wanted, distance))
    return Mixture(weights / scale, _quantile(errors, TAIL), _quantile(errors, 1 - TAIL))


def _honest_errors(columns: Array, wanted: Array, distance: int) -> Array:
    """Errors of each part of the past by weights from the others, neighbours within `distance` left out."""
    errors = np.empty(len(wanted))
    edges = np.linspace(0, len(wanted), PARTS + 1).astype(int)
    for begin, end in pairwise(edges):
        others = np.ones(len(wanted), dtype=bool)
        others[max(0, begin - distance) : end + distance] = False
        weights = _least_absolute(columns[others], wanted[others])
        errors[begin:end] = wanted[begin:end] - columns[begin:end] @ weights
    return errors


def _least_absolute(columns: Array, wanted: Array) -> Array:
    weigh = np.ones(len(wanted))
    found: Array = np.zeros(columns.shape[1])
    for _ in range(ROUNDS):
        weighed = columns * weigh[:, None]
        square = weighed.T @ columns
        square[np.diag_indices_from(square)] += RIDGE * np.trace(square) / len(square) + 1e-12
        found = np.asarray(np.linalg.solve(square, weighed.T @ wanted), dtype=np.float64)
        errors = np.abs(wanted - columns @ found)
        weigh = 1 / np.maximum(errors, 0.1 * np.median(errors) + 1e-9)
    return found


def _quantile(ordered: Array, level: float) -> float:
    return float(np.quantile(ordered, level)) if len(ordered) else 0.0
