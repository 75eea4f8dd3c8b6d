"""Ranks of values, as in scipy.stats. Every server imports this at its start, and that package alone would
make the start a third longer.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.float64]


def ranks(values: Sequence[float] | Ranks) -> Ranks:
    """Return ranks from 1 for the smallest; equal values share the mean of their ranks."""
    last, count, place = _places(values)
    return (last - (count - 1) / 2)[place]


def smaller(values: Sequence[float] | Ranks) -> npt.NDArray[np.int64]:
    """Return for each value the number of smaller ones."""
    last, count, place = _places(values)
    return (last - count)[place]


def _places(values: Sequence[float] | Ranks) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the last rank and the count of each distinct value, and the index of the distinct value of each
    element.
    """
    _, place, count = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    return np.cumsum(count), count, place
