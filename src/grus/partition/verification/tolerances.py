"""Shared helpers of the checkers: the precision of times, and the most bytes at once. Only they use them."""

from collections.abc import Sequence

import numpy as np

ROUNDING = 1e-9
"""Share of the step by which a time may be off."""
Holding = tuple[float, float, int]
"""(from, until, bytes)"""


def most_at_once(held: Sequence[Holding]) -> int:
    """The largest sum at any instant at which something begins; ends are open, instants count."""
    held = [one for one in held if one[2]]
    if not held:
        return 0
    begin, end = (np.array([one[place] for one in held]) for place in (0, 1))
    size = np.array([one[2] for one in held], dtype=np.int64)
    alive = [(begin <= now) & ((end > now) | ((begin == now) & (end == now))) for now in np.unique(begin)]
    return max(int(size[mask].sum()) for mask in alive)
