"""Extrapolation of trials: estimate the final value of a trial if it continued, so that values of different
rungs are comparable.

From each rung to the next a straight line is fitted to the trials that were at both. It is shrunk towards "as
far below the mean as before" with the weight of `TRUST` trials, so that few of them do not mislead. The value
at the lower rung alone decided which trials continued; that does not bias a line through given values of it.
If a rung says little about the next the line is flat, and lucky trials of an early rung count as average.
"""

import math
from collections.abc import Sequence

import numpy as np

from grus.tuning.rungs import Ladder

TRUST = 3.0


def continued(ladder: Ladder) -> dict[int, float]:
    """Return by trial number the value (less is better) that is expected at the highest rung that any trial
    has reached.

    Trials before their first rung are left out; diverged values (no longer a number) are infinite.
    """
    highest = max(map(len, ladder.values.values()), default=0) - 1
    lines = [_line(ladder, rung) for rung in range(highest)]
    found = {}
    for number, values in ladder.values.items():
        if not values:
            continue
        value = values[-1]
        for mean, next_mean, slope in lines[len(values) - 1 :]:
            value = next_mean + slope * (value - mean)
        found[number] = value
    return found


def _line(ladder: Ladder, rung: int) -> tuple[float, float, float]:
    """Return the mean at the rung and at the next one, of those that were at both, and the slope."""
    finite = [got for got in ladder.values.values() if len(got) > rung and math.isfinite(got[rung])]
    both = [got for got in finite if len(got) > rung + 1 and math.isfinite(got[rung + 1])]
    if not both:
        return 0.0, 0.0, 1.0
    here, there = _column(both, rung), _column(both, rung + 1)
    weight = TRUST * float(np.var(_column(finite, rung)))
    off, rise = here - here.mean(), there - there.mean()
    below = float(off @ off) + weight
    slope = 1.0 if below <= 0.0 else (float(off @ rise) + weight) / below
    return float(here.mean()), float(there.mean()), min(max(slope, 0.0), 2.0)


def _column(rows: Sequence[tuple[float, ...]], place: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([row[place] for row in rows], dtype=np.float64)
