"""Guesses at the next values of a series, and their best mixture for each distance ahead.

A guess is what somebody would say who knows one thing: the last value, the mean of the last while, what it
was a season ago, what it usually is at this point of the season. How much each is worth is read off the past
by least absolute deviations, apart for each distance. The errors are those of values that the weights were
not fitted to: the past is cut into parts, and each part is judged by weights from the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

WINDOWS = (3, 8, 24, 72)
"""Lengths of the recent means, in steps."""
RECALLED = (3, 10)
"""Seasons that are looked back on for what is usual: lately, and for longer."""
RIDGE = 1e-3
"""How far weights that the past does not need are pulled to zero, that is to the last value."""
ROUNDS = 6
"""Of reweighting: least squares with weights 1/|error| come to least absolute deviations."""
NEAR = 0.1
"""Of the mean error: nearer than that, errors count by their squares; what is rare but sure then counts."""
EACH = 24
"""Distances, from the nearest on, that have weights of their own."""
PARTS = 4
"""That the past is cut into for honest errors."""
FEWEST_OTHERS = 30
"""Moments to fit weights to; with fewer, neighbours are not left out."""
TAIL = 0.05
"""Part of the errors on either side of the interval."""
LATELY = 72
"""Steps over which it is measured how restless a series is at a moment."""
CALM = 0.5
"""Part of a series' usual restlessness that an interval allows for however quiet it is at the moment."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is expected at one distance."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights of the guesses at one distance, and how far off the mixture was, in units of restlessness."""

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
    restless = float(restlessness(values)[-1])
    found = []
    for step in range(1, steps + 1):
        mixture = _between(marks, mixtures, step)
        guessed = guesses(values, last, step, seasons)[0]
        middle = float(values[-1] + guessed @ mixture.weights)
        found.append(Ahead(middle, middle + restless * mixture.below, middle + restless * mixture.above))
    return found


def distances(steps: int) -> list[int]:
    """At which weights are fitted: all near ones, then eight for each doubling; blended between those."""
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


def guesses(values: Array, at: Indices, distance: int, seasons: Sequence[float]) -> Array:
    """A row for each moment of `at`, a column for each guess: how far it is from the value at that moment."""
    last = values[at]
    sums = np.concatenate(([0.0], np.cumsum(values)))
    columns = [_recent(sums, at, window) for window in WINDOWS]
    for season in seasons:
        before = math.ceil(distance / season)
        then = _usual(values, at + distance, season, before)
        change = then[-1] - _usual(values, at, season, 1)[-1]
        columns += [*then, last + change, _recent(sums, at, round(season))]
    return np.column_stack(columns) - last[:, None]


def _recent(sums: Array, at: Indices, window: int) -> Array:
    begin = np.maximum(at + 1 - window, 0)
    mean: Array = (sums[at + 1] - sums[begin]) / (at + 1 - begin)
    return mean


def _usual(values: Array, at: Indices, season: float, before: int) -> list[Array]:
    """What was there so many seasons before; and the means of the few and the many seasons up to then.

    Seasons before the first value are left out of the means; there is always one."""
    many = max(RECALLED)
    index = at - np.round((before + np.arange(many)) * season).astype(np.int64)[:, None]
    there = index >= 0
    found = np.where(there, values[np.maximum(index, 0)], 0.0)
    counts = np.maximum(np.cumsum(there, axis=0), 1)
    means = np.cumsum(found, axis=0) / counts
    return [found[0], *(means[few - 1] for few in RECALLED)]


def fit(values: Array, known: NDArray[np.bool_], distance: int, seasons: Sequence[float]) -> Mixture:
    """Weights and errors at one distance, from every moment of the past that had as much behind it."""
    at = np.arange(learns_from(seasons), len(values) - distance, dtype=np.int64)
    at = at[known[at + distance]]
    columns = guesses(values, at, distance, seasons)
    wanted = values[at + distance] - values[at]
    scale = np.sqrt((columns**2).mean(axis=0)) + 1e-12
    columns = columns / scale
    weights = _least_absolute(columns, wanted)
    errors = _honest_errors(columns, wanted, distance) / restlessness(values)[at]
    below, above = np.quantile(errors, (TAIL, 1 - TAIL)).tolist()
    return Mixture(weights / scale, min(below, 0.0), max(above, 0.0))


def learns_from(seasons: Sequence[float]) -> int:
    """The first moment from which each season can be looked back on."""
    return math.ceil(max(seasons, default=0.0))


def restlessness(values: Array) -> Array:
    """How much errors weigh at each moment: half the series' usual spread, and half that of the last while.

    A queue that woke up this week has wider intervals than it had while it slept."""
    at = np.arange(len(values))
    sums, squares = (np.concatenate(([0.0], np.cumsum(each))) for each in (values, values**2))
    spread = np.sqrt(np.maximum(_recent(squares, at, LATELY) - _recent(sums, at, LATELY) ** 2, 0.0))
    found: Array = CALM * spread.mean() + (1 - CALM) * spread + 1e-12
    return found


def _honest_errors(columns: Array, wanted: Array, distance: int) -> Array:
    """Errors of each part of the past by weights from the others, neighbours within `distance` left out."""
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
