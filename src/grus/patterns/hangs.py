"""Hangs: a job that holds its GPUs, has not ended, and makes no progress.

A hang is detected by evidence only, and relative to the normal behavior of this job:

- It reported steps, and they have stopped. It is detected sooner if its activity is gone as well, or has
  become flat (a spin, a collective call that waits for a lost peer: utilization high, power low), and
  later if it looks as busy as ever (it may evaluate).
- It never reported a step, but worked periodically. For several periods it has been quiet or flat instead,
  and it has not reported anything else that is new either.

A job that never reported and was never periodic is idle or unknown, not hung. A job that writes to disk is
saving.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 3
"""Advances of a job's steps before their pace is known."""
KEPT = 20
"""Advances whose pace is remembered."""
SOON = (30.0, 4.0)
"""Seconds, and times the longest pause between two advances, where telemetry says the same."""
LATE = (60.0, 8.0)
"""The same where it says nothing."""
LONGEST = 7200.0
PERIODS = 4.0
"""Number of periods without periodic activity that are evidence by themselves."""
FLAT = 0.33
"""Part of its usual spread that flat activity has at most, …"""
LEAST_SPREAD = 0.05
"""… if that spread was more than this: for activity that was always flat, flatness is no evidence."""
POWER = 0.75
"""Part of its usual power that is low."""
SPANS = (20, 30, 45, 60, 90, 120, 180, 240, 360, 480)
"""Bins over which flatness is looked for."""


class Steps:
    """Progress of one job's steps, as it reports them. Bounded: `KEPT` numbers."""

    def __init__(self) -> None:
        self.step: float | None = None
        self.advanced_at: float | None = None
        """Time of the last seen progress; its first report counts."""
        self.done = False
        """It has said itself that this was the last step."""
        self._pauses: deque[float] = deque(maxlen=KEPT)

    def hear(self, step: float, at: float, total: float | None = None) -> bool:
        """Record a report; return whether it shows an advance. A step below the last one is a new
        beginning.
        """
        self.done = total is not None and step >= total
        if self.step == step or (self.advanced_at is not None and at <= self.advanced_at):
            return False
        # The first advance may have had to wait for compilation and data: it does not show the pace.
        if self.advanced_at is not None and self.step is not None and step > self.step > 0:
            self._pauses.append(at - self.advanced_at)
        self.step, self.advanced_at = step, at
        return True

    @property
    def known(self) -> bool:
        """Return whether its pace is known."""
        return len(self._pauses) >= FEWEST

    @property
    def longest_pause(self) -> float:
        """Seconds between two advances."""
        return max(self._pauses, default=0.0)

    def still_for(self, now: float) -> float:
        """Seconds without an advance; 0 before the first report."""
        return 0.0 if self.advanced_at is None else max(0.0, now - self.advanced_at)

    def advances(self, now: float) -> bool:
        """Return whether its own reports show progress: the last advance is not too long ago for its pace."""
        if self.advanced_at is None or self.step is None or self.step <= 0:
            return False
        return self.still_for(now) <= _patience(LATE, self.longest_pause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Telemetry's evidence of a job's progress."""

    measured: bool = True
    """True if there is any; without it, only steps count."""
    quiet_for: float = 0.0
    """Seconds in which nothing happens on any of its GPUs."""
    flat_for: float = 0.0
    """Seconds in which activity is flat, unlike before."""
    power_low: bool | None = None
    """True if it takes much less power than before; None if power is not measured."""
    period: float | None = None
    """Seconds of its present or last period; or of the period that earlier runs of it had."""
    own: bool = True
    """True if it has worked with that period itself since it was started, and not only earlier runs of it."""
    beating: bool = False
    """True if its activity has that period now."""
    told_for: float = math.inf
    """Seconds since it last reported something new: other figures, or that it has saved."""
    writing: bool = False
    """It writes to disk: it saves."""
    on_demand: bool = False
    """It works when somebody asks it to, by hand or by requests: that nothing happens is no hang."""


@dataclass(frozen=True, slots=True)
class Hang:
    since: float
    confidence: float
    sentence: str


def hang(steps: Steps, seen: Evidence, now: float) -> Hang | None:
    """Decide whether it hangs, since when and by which evidence."""
    if seen.writing or steps.done:
        return None
    if steps.known or (steps.advanced_at is not None and seen.period is not None):
        return _by_steps(steps, seen, now)
    if seen.period is None or not seen.own or seen.on_demand:
        return None
    odd, how = _odd(seen)
    odd = min(odd, seen.told_for)
    if odd < _patience((SOON[0], PERIODS), seen.period):
        return None
    return Hang(now - odd, 0.7, f"its rhythm has given way to {how} activity")


def _by_steps(steps: Steps, seen: Evidence, now: float) -> Hang | None:
    still = steps.still_for(now)
    pause = max(steps.longest_pause, seen.period or 0.0)
    odd, how = _odd(seen)
    since = now - still
    if min(still, odd) >= _patience(SOON, pause):
        return Hang(since, 0.95, f"no step any more, and {how} activity")
    if still >= _patience(LATE, pause) and not seen.beating:
        busy = ", though it looks busy" if seen.measured else ""
        return Hang(since, 0.8, f"no step any more{busy}")
    return None


def _odd(seen: Evidence) -> tuple[float, str]:
    """Return for how long activity has been unlike that of a job that makes progress, and in which way."""
    if seen.quiet_for > 0:
        return seen.quiet_for, "no"
    if seen.flat_for > 0 and seen.power_low is not False:
        return seen.flat_for, "flat"
    return 0.0, ""


def _patience(rule: tuple[float, float], pause: float) -> float:
    least, times = rule
    return min(max(least, times * pause), LONGEST)


def flat_for(values: Floats, width: float = 1.0) -> float:
    """Seconds at the end in which activity hardly moves although it did before; 0 if it moves.

    What came before must last at least as long as what is looked at.
    """
    known = values[np.isfinite(values)]
    found = 0.0
    for span in SPANS:
        if len(known) < 2 * span:
            break
        usual = float(known[:-span].std())
        if usual <= LEAST_SPREAD or float(known[-span:].std()) > FLAT * usual:
            break
        found = span * width
    return found


def steady(values: Floats) -> bool:
    """Return whether activity hardly moves lately, regardless of its earlier course."""
    return len(values) >= SPANS[0] and float(values[-SPANS[0] :].std()) <= LEAST_SPREAD


def power_low(values: Floats, span: int) -> bool | None:
    """Return whether the last `span` bins take much less power than those before; None if there are too
    few.
    """
    known = values[np.isfinite(values)]
    if len(known) < 2 * span:
        return None
    return float(known[-span:].mean()) < POWER * float(np.median(known[:-span]))
