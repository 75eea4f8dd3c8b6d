"""Stage of a training: start-up, training, evaluation, or a pause to save.

Inside a period stages are only distinguished if they last: the tag of a training whose epochs take a few
seconds says training all the time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.model.activity_labels import TrainingStage
from grus.patterns.activity_bursts import QUIET

Floats = NDArray[np.float64]

SHORTEST_PERIOD = 30.0
"""Seconds; stages within shorter periods are not distinguished."""
LOW = 0.5
"""Part of its usual activity below which a training stands still, or nearly."""
WRITING = 1e6
"""Bytes a second to disk that may be a checkpoint."""
APART = 4.0
"""Required distance between two levels of activity, in units of their own noise."""
RARE = (0.05, 0.4)
"""Part of the time that evaluation takes."""
SHORTEST_STAY = 4
"""Values that it lasts at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSignals:
    """Present activity of a training, and its usual activity."""

    begun: bool
    """It has done steps, or is periodic."""
    period: float | None = None
    now: float = 0.0
    """Activity of the last seconds."""
    usual: float = 0.0
    """Activity while it is busy."""
    levels: tuple[float, float] | None = None
    """Levels of training and of its other regular activity, if there are two."""
    writes: float | None = None
    """Bytes a second to disk in the last seconds; None where that is not measured."""
    steps_rest: bool = False
    """It reports steps, and has not advanced for longer than usual (though not for so long that it hangs)."""


def stage(scene: TrainingSignals) -> TrainingStage:
    if not scene.begun:
        return TrainingStage.START_UP
    if scene.period is not None and scene.period < SHORTEST_PERIOD:
        return TrainingStage.TRAINING
    if scene.writes is not None and scene.writes >= WRITING and scene.now < LOW * scene.usual:
        return TrainingStage.CHECKPOINT
    if scene.steps_rest and scene.now > QUIET:
        return TrainingStage.EVALUATION
    if scene.levels is not None and scene.now > QUIET:
        training, other = scene.levels
        if abs(scene.now - other) < abs(scene.now - training):
            return TrainingStage.EVALUATION
    return TrainingStage.TRAINING


def usual(values: Floats) -> float:
    """Activity while it is busy: the median of what is not quiet; 0 if it never was."""
    busy = values[values > QUIET]
    return float(np.median(busy)) if len(busy) else 0.0


def levels(values: Floats, period: float) -> tuple[float, float] | None:
    """The two levels of busy activity, where each period has some time of both; the more frequent one first.

    `period` in values. Noise goes to and fro as well, but more often than once a period and not for long.
    """
    busy = np.sort(values[values > QUIET])
    if len(busy) < max(2 * period, 4 * SHORTEST_STAY):
        return None
    cut = _cut(busy)
    low, high = busy[:cut], busy[cut:]
    noise = max(float(low.std()), float(high.std()), QUIET)
    if float(high.mean() - low.mean()) < APART * noise:
        return None
    middle = float(low[-1] + high[0]) / 2
    rare = values <= middle if len(low) < len(high) else values > middle
    stays = _lengths(rare & (values > QUIET))
    share = float(stays.sum()) / len(busy)
    often = len(stays) > len(values) / period + 1
    if not RARE[0] <= share <= RARE[1] or often or float(np.median(stays)) < SHORTEST_STAY:
        return None
    first, second = float(low.mean()), float(high.mean())
    return (first, second) if len(low) > len(high) else (second, first)


def _lengths(which: NDArray[np.bool_]) -> Floats:
    """Return the length of each stretch of true values."""
    edges = np.diff(np.concatenate([[0], which.astype(np.int8), [0]]))
    return (np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0)).astype(np.float64)


def _cut(ordered: Floats) -> int:
    """Return the cut of sorted values that makes both sides as homogeneous as possible (Otsu)."""
    count = len(ordered)
    sums = np.cumsum(ordered)
    left = np.arange(1, count)
    apart = sums[:-1] / left - (sums[-1] - sums[:-1]) / (count - left)
    return 1 + int(np.argmax(apart**2 * left * (count - left)))
