"""Change points: where the level of a series moves and stays.

Binary segmentation on the mean: the best place to cut a stretch is where the two sides differ most for their
lengths, and a cut counts only if chance hardly gives as much. Noise that drifts (each value like the one
before) moves means by itself, so its size is read off values that lie a whole least stretch apart, and that
many values count as one.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST = 10
"""Values that a level must last to be one."""
STRICT = 6.0
"""Strictness of a cut against chance: times the logarithm of the length."""


def changes(values: Floats, *, least: int = LEAST, shift: float = 0.0) -> list[int]:
    """Positions of the first value of each new level, ascending.

    NaN is a gap and belongs to no side. Levels nearer to each other than `shift` are the same.
    """
    places = np.flatnonzero(np.isfinite(values))
    known = values[places]
    if len(known) < 2 * least:
        return []
    floor = max(shift, 1e-9 * float(np.abs(known).max()), 1e-12)
    needed = max(_noise(known, least), 0.1 * floor) ** 2 * STRICT * np.log(len(known)) * least
    cuts: list[int] = []
    stretches = [(0, len(known))]
    while stretches:
        begin, end = stretches.pop()
        cut, gain, moved = _best(known[begin:end], least)
        if cut and gain > needed and moved >= floor:
            cuts.append(begin + cut)
            stretches += [(begin, begin + cut), (begin + cut, end)]
    return [int(places[cut]) for cut in sorted(cuts)]


def level_since(values: Floats) -> int:
    """Position from which on the present level lasts: the last change point, or 0."""
    return max(changes(values), default=0)


def _noise(known: Floats, least: int) -> float:
    """Size of the noise: the greater of what neighbors and what distant values differ by, robustly."""
    # The median of |a - b| of two normal values of size s is 0.954 s.
    return max(float(np.median(np.abs(known[lag:] - known[:-lag]))) for lag in (1, least)) / 0.954


def _best(part: Floats, least: int) -> tuple[int, float, float]:
    """Return the best cut, the part of the sum of squares that it explains, and the difference of the
    means.
    """
    count = len(part)
    if count < 2 * least:
        return 0, 0.0, 0.0
    sums = np.cumsum(part)
    left = np.arange(least, count - least + 1)
    apart = sums[left - 1] / left - (sums[-1] - sums[left - 1]) / (count - left)
    gains = apart**2 * left * (count - left) / count
    best = int(np.argmax(gains))
    return int(left[best]), float(gains[best]), abs(float(apart[best]))
