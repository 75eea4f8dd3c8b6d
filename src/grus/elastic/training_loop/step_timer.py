"""Time of this worker's own part of a step, without waiting for the others: it identifies stragglers.

In synchronous training all workers step together, so the time of a whole step is the same for all.
"""

import time
from collections.abc import Callable

SMOOTHING = 0.3
"""Weight of the newest step in the mean."""


class Laps:
    """Belongs to the training thread; any other may read `seconds`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done_at: float | None = None
        self._waited = 0.0
        self.seconds: float | None = None
        """Smoothed seconds of a step per micro-batch of this worker; None until two steps are done."""

    def waited(self, seconds: float) -> None:
        """Subtract that time of the present step: this worker waited for others."""
        self._waited += seconds

    def done(self, parts: int) -> None:
        """A step is done, in which this worker had so many micro-batches."""
        now, waited = self._clock(), self._waited
        before, self._done_at, self._waited = self._done_at, now, 0.0
        if before is None or parts < 1:
            return
        own = max(0.0, now - before - waited) / parts
        self.seconds = own if self.seconds is None else (1 - SMOOTHING) * self.seconds + SMOOTHING * own
