"""Progress reports of a run: its progress, its speed, and the cost of the last change of worker group."""

import math
import time
from collections.abc import Callable, Mapping

from grus.sdk import worker

OFTEN = 0.5
"""Seconds between two reports."""
SMOOTHING = 0.1
"""Weight of the newest step in the mean."""


class StepReporter:
    """Measures steps, and reports on behalf of the worker group where this worker is its first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._committed_at: float | None = None
        self._told_at = -math.inf
        self._seconds: float | None = None
        """Smoothed seconds of an undisturbed step with the present worker group."""
        self._before: float | None = None
        """Smoothed seconds of an undisturbed step with the previous worker group."""
        self._changing = False
        self._redone = 0
        self.figures: dict[str, float] = {"redone": 0.0}

    def interrupted(self, *, redo: bool) -> None:
        """Record that a new worker group is about to be formed; with `redo`, the step under way is lost."""
        self._redone += redo
        self._changing = True

    def committed(self) -> float | None:
        """A step is done: its seconds, if nothing disturbed it."""
        now = self._clock()
        seconds = now - self._committed_at if self._committed_at is not None else None
        self._committed_at = now
        if seconds is None:
            self._changing = False
            return None
        if self._changing:
            self._changing = False
            usual = self._seconds if self._seconds is not None else self._before
            self.figures["stall"] = max(0.0, seconds - (usual or 0.0))
            self.figures["redone"] = float(self._redone)
            self._before, self._seconds = usual, None
            return None
        usual = self._seconds
        self._seconds = seconds if usual is None else (1 - SMOOTHING) * usual + SMOOTHING * seconds
        return seconds

    def rested(self) -> None:
        """Time went by that belongs to no step (an evaluation, a checkpoint)."""
        self._committed_at = self._clock()

    def report(self, figures: Mapping[str, float], batch: int, *, now: bool = False) -> None:
        """Tell it, unless the last report is quite new."""
        self.figures.update(figures)
        if self._seconds is not None:
            self.figures["samples_per_s"] = batch / max(self._seconds, 1e-9)
        if now or self._clock() - self._told_at >= OFTEN:
            self._told_at = self._clock()
            worker.report(**self.figures)
