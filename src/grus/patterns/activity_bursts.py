"""Activity as it comes and goes: bursts and the pauses between them, kept as samples arrive."""

import math
from collections import deque

import numpy as np

QUIET = 0.02
"""Activity (0 to 1, or cores) up to which nothing happens."""
PAUSE = 1.0
"""Seconds that make a pause."""
KEPT = 24
"""Pauses that are remembered."""


class Activity:
    """Times at which one subject was at work. Bounded: `KEPT` pauses."""

    def __init__(self) -> None:
        self.first: float | None = None
        """Time of the first look."""
        self.last = -math.inf
        """Time of the last look."""
        self.busy_at: float | None = None
        """Time of the last activity; None: never."""
        self._began: float | None = None
        """Time of the first activity."""
        self._pauses: deque[float] = deque(maxlen=KEPT)
        self._gap = 0.0

    def add(self, at: float, value: float) -> None:
        """Take a sample; a longer silence than usual is neither work nor rest, and ends nothing."""
        if not math.isfinite(value) or at <= self.last:
            return
        if self.first is None:
            self.first = at
        elif self._gap and at - self.last > 5 * max(self._gap, 1.0):
            self._skip(at - self.last)
        else:
            self._gap = at - self.last
        self.last = at
        if value <= QUIET:
            return
        if self.busy_at is None:
            self._began = at
        elif at - self.busy_at > self._gap + PAUSE:
            self._pauses.append(at - self.busy_at - self._gap)
        self.busy_at = at

    def _skip(self, silence: float) -> None:
        """Skip a silence: the activity during it is unknown, so that time does not count as a pause."""
        if self.busy_at is not None:
            self.busy_at += silence

    @property
    def gap(self) -> float:
        """Seconds between two samples, as they last came."""
        return self._gap

    @property
    def quiet_since(self) -> float | None:
        """Return the time since which it is quiet; None while it is active, or before the first sample."""
        if self.first is None:
            return None
        since = self.first if self.busy_at is None else self.busy_at + self._gap
        return since if self.last - since > self._gap else None

    @property
    def quiet_for(self) -> float:
        """Seconds, 0 while something happens."""
        since = self.quiet_since
        return 0.0 if since is None else self.last - since

    @property
    def at_work_for(self) -> float:
        """Seconds since it first did something; 0 if it never did."""
        return 0.0 if self._began is None else self.last - self._began

    def carries(self, period: float) -> bool:
        """Return whether this period is one of its work: there is activity in each cycle, up to now.

        A period may also show in noise far below anything that counts as work.
        """
        going_on = self.quiet_for <= period and self.usual_pause <= period
        return going_on and self.at_work_for >= 2 * period

    @property
    def pauses(self) -> int:
        """Return the number of remembered pauses that have ended."""
        return len(self._pauses)

    @property
    def usual_pause(self) -> float:
        """Seconds, the median; 0 without one."""
        return float(np.median(self._pauses)) if self._pauses else 0.0

    @property
    def longest_pause(self) -> float:
        """Seconds, of those that ended with work."""
        return max(self._pauses, default=0.0)
