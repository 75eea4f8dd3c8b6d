"""Detects wall-clock jumps against the monotonic clock, so that time limits count elapsed time.

Jumps while no control plane ran cannot be told from elapsed time, and count as such.
"""

from collections.abc import Callable

from grus.model.identifiers import JobId
from grus.model.jobs import Job

WORTH_A_WORD = 1.0
"""Seconds; a smaller jump is ordinary clock adjustment."""


class ClockJumps:
    """Wall-clock jumps since each attempt began. One instance per control loop."""

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._seen: tuple[float, float] | None = None
        """Both clocks at the last look."""
        self._whole = 0.0
        self._before: dict[JobId, tuple[int, float]] = {}
        """Each job that holds GPUs: its attempt, and the sum of jumps before it began."""

    def look(self, now: float) -> float:
        """Return the jump of the wall clock since the last look, in seconds: forwards if above zero."""
        at = self._steady()
        leap = 0.0 if self._seen is None else (now - self._seen[0]) - (at - self._seen[1])
        self._seen = now, at
        if abs(leap) <= WORTH_A_WORD:
            return 0.0
        self._whole += leap
        return leap

    def note(self, job: Job, holds: bool) -> None:
        """Take note of an attempt that starts, or is over."""
        if not holds:
            self._before.pop(job.id, None)
        elif self._before.get(job.id, (0, 0.0))[0] != job.attempt:
            self._before[job.id] = job.attempt, self._whole

    def since(self, job: Job) -> float:
        """Return the sum of wall-clock jumps since the job's attempt began, in seconds."""
        attempt, before = self._before.get(job.id, (0, 0.0))
        return self._whole - before if attempt == job.attempt else 0.0
