"""The last minutes of one number, in even bins: what came in one bin is averaged, an empty bin is NaN."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Window:
    """`bins` bins of `width` seconds; costs 16 bytes a bin."""

    def __init__(self, bins: int, width: float = 1.0) -> None:
        self.width = width
        self._sums = np.zeros(bins)
        self._counts = np.zeros(bins)
        self._last: int | None = None
        """Number of the newest bin, counted from time 0."""

    def add(self, at: float, value: float) -> None:
        """Take a number; one from before the window, or NaN, is dropped."""
        if not np.isfinite(value):
            return
        number, bins = int(at // self.width), len(self._sums)
        if self._last is None:
            self._last = number
        if number <= self._last - bins:
            return
        for empty in range(max(self._last + 1, number - bins + 1), number + 1):
            self._sums[empty % bins] = self._counts[empty % bins] = 0.0
        self._last = max(self._last, number)
        self._sums[number % bins] += value
        self._counts[number % bins] += 1.0

    def values(self) -> Floats:
        """Oldest first, up to the newest bin; starts with the first bin that has something."""
        if self._last is None:
            return np.zeros(0)
        order = np.arange(self._last + 1, self._last + 1 + len(self._sums)) % len(self._sums)
        counts = self._counts[order]
        found: Floats = np.full(len(counts), np.nan)
        np.divide(self._sums[order], counts, out=found, where=counts > 0)
        return found[int(np.argmax(counts > 0)) :]
