"""Rhythm as samples arrive: several scales at once, bounded memory, and work only where something is new."""

from collections import deque

import numpy as np

from grus.patterns.periods import Rhythm, rhythm


class Beat:
    """One measure of one subject, watched for its rhythm."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=1024)

    def add(self, at: float, value: float) -> None:
        """Take a sample; `at` in seconds, never before the one before. NaN is a gap, as is silence."""
        self._samples.append((at, value))

    def found(self, now: float) -> Rhythm | None:
        """The rhythm by what was added until `now`; cheap when nothing new can be known."""
        samples = np.array([sample for sample in self._samples if sample[0] <= now])
        if len(samples) < 16:
            return None
        step = float(samples[-1, 0] - samples[0, 0]) / (len(samples) - 1)
        return rhythm(samples[:, 1], step, start=float(samples[0, 0])) if step > 0 else None
