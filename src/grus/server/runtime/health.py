"""Health of the server: the control loop must keep making passes, and its record must be in place.

The loop passes at least every few seconds by itself (it asks the engine for its nodes). A task of the event
loop checks its count once a second, so that a stuck loop is seen even without requests.
"""

import asyncio
import time
from collections.abc import Callable

from grus.controlplane.reconciler.health import ControlLoopHealth

OLDEST = 30.0
"""Seconds without a pass after which the loop counts as stuck: several of its own intervals."""
EVERY = 1.0


class ServerHealth:
    """The age of the last pass that was seen."""

    def __init__(
        self,
        pulse: ControlLoopHealth,
        clock: Callable[[], float] = time.monotonic,
        gone: Callable[[], str] = lambda: "",
    ) -> None:
        """`gone` says why the record is not there any more; "" while it is."""
        self._gone = gone
        self._pulse = pulse
        self._clock = clock
        self._passes = -1
        self._at = clock()
        self.look()

    def look(self) -> None:
        if self._pulse.passes != self._passes:
            self._passes = self._pulse.passes
            self._at = self._clock()

    @property
    def age(self) -> float:
        """Seconds since the loop was last seen to have made a pass."""
        self.look()
        return self._clock() - self._at

    def wrong(self) -> str:
        """Return the problem; "" if there is none."""
        if self._pulse.stopped:
            return "the control loop no longer acts: a newer server has taken over"
        if self.age > OLDEST:
            return f"the control loop has made no pass for {self.age:.0f} s"
        return self._gone()

    async def watch(self) -> None:
        """Look now and then, until canceled."""
        while True:
            self.look()
            await asyncio.sleep(EVERY)
