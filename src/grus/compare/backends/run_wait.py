"""Waiting for a run: look again and again, tell what changes, and bear with an environment that is silent.

A batch system or a cluster that is restarted does not end its jobs, so a comparison that has run for days
must not end either. Only a silence that lasts does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from grus.compare.environments import DriverFailed, Tell

T = TypeVar("T")
SILENCE = 600.0
"""Seconds without an answer after which an environment counts as gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollSchedule:
    """Polling interval and clock."""

    clock: Callable[[], float]
    pause: Callable[[float], None]
    every: float

    def until(
        self,
        over: Callable[[T], bool],
        look: Callable[[], T],
        *,
        word: Callable[[T], str],
        deadline: float,
        tell: Tell,
    ) -> T:
        """Return the last state, at the end or when time is up. Raises DriverFailed if a silence lasts."""
        last, heard = "", self.clock()
        while True:
            now = self.clock()
            try:
                found = look()
            except DriverFailed as why:
                if now - heard > SILENCE or now >= deadline:
                    raise
                said = str(why)
            else:
                heard = now
                if over(found) or now >= deadline:
                    return found
                said = word(found)
            if said and said != last:
                tell(said)
                last = said
            self.pause(self.every)
