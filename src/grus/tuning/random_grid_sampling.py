"""Samplers: choose the next point to try. A family: each sampler is a function of the search, the known
trials, and the number.

Randomness comes from the sweep's seed and the number of the trial alone. So a sampler that is rebuilt from
the records, after a restart or on another machine, asks the same as the one that was lost.
"""

from collections.abc import Callable, Sequence

import numpy as np

from grus.model.sweep_search import Axis, Params, Sweep, Value
from grus.tuning.sweep_trials import TrialView

Sampler = Callable[[Sweep, Sequence[TrialView], int], Params]
"""Function that returns the parameters of trial `number`, given all trials created before."""


def random(sweep: Sweep, trials: Sequence[TrialView], number: int) -> Params:
    """Sample every axis independently, evenly (by orders of magnitude if it is logarithmic)."""
    del trials
    chance = np.random.default_rng([sweep.seed, number])
    return tuple((axis.name, at(axis, float(chance.random()))) for axis in sweep.axes)


def grid(sweep: Sweep, trials: Sequence[TrialView], number: int) -> Params:
    """Return the points of the grid in a random order, so that an early end has seen all parts of it."""
    del trials
    sizes = [len(points(axis)) for axis in sweep.axes]
    order = np.random.default_rng([sweep.seed]).permutation(int(np.prod(sizes)))
    places = np.unravel_index(int(order[number % len(order)]), sizes)
    return tuple(
        (axis.name, points(axis)[int(place)]) for axis, place in zip(sweep.axes, places, strict=True)
    )


def at(axis: Axis, part: float) -> Value:
    """Return the value at `part` (from 0 to 1) of the axis."""
    if axis.choices:
        return axis.choices[min(int(part * len(axis.choices)), len(axis.choices) - 1)]
    step = axis.step if axis.step is not None else 1.0 if axis.whole else None
    if step is not None and not axis.log:
        count = steps(axis, step)
        value = axis.low + step * min(int(part * count), count - 1)
    elif axis.log:
        half = 0.5 if axis.whole else 0.0
        low, high = np.log(axis.low - half), np.log(axis.high + half)
        value = float(np.exp(low + part * (high - low)))
    else:
        value = axis.low + part * (axis.high - axis.low)
    value = min(max(value, axis.low), axis.high)
    return round(value) if axis.whole else value


def steps(axis: Axis, step: float) -> int:
    """Return how many values an axis with such steps has."""
    return int((axis.high - axis.low) / step + 1e-9) + 1


def points(axis: Axis) -> tuple[Value, ...]:
    """Return all values of a finite axis; empty for one without a step."""
    if axis.choices:
        return axis.choices
    step = axis.step if axis.step is not None else 1.0 if axis.whole else None
    if step is None:
        return ()
    found = (axis.low + step * place for place in range(steps(axis, step)))
    return tuple(round(value) if axis.whole else value for value in found)


def grid_size(sweep: Sweep) -> int:
    """Return the number of points of the whole grid."""
    size = 1
    for axis in sweep.axes:
        size *= len(points(axis))
    return size
