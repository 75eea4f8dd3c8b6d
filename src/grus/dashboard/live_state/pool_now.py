"""The tiles of the pool beside a running server: commits are applied at once, metrics every few seconds.

Made when the first person looks. Nothing runs without viewers: the next viewer triggers a refresh, which
brings everything up to date. For any thread.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from grus.controlplane.facade.services import Services
from grus.dashboard.live_state.gpu_tiles import Tiles
from grus.model.interfaces import User, Written
from grus.model.jobs import Job

MEASURE = 2.0
"""Seconds between two looks at the GPUs' measurements and recognized activity."""
RECONCILE = 30.0
"""Seconds after which everything is compared with the loop's memory, in case a change was never reported."""
MOST_WAITING = 10_000
"""Commits that wait to be taken in; with more of them it is quicker to look at everything."""


class Demand(NamedTuple):
    """The demand on the pool."""

    waiting: int
    """Jobs."""
    wanted: int
    """Micro-GPUs that jobs hold or could use now."""


class PoolNow:
    """One a server."""

    def __init__(self, services: Services, clock: Callable[[], float] = time.monotonic) -> None:
        self._services = services
        self._clock = clock
        self._lock = threading.Lock()
        self._tiles = Tiles()
        self._heard: deque[Job] = deque()
        self._measured = self._reconciled = float("-inf")
        self.demand = Demand(0, 0)
        self.life = secrets.token_hex(4)
        """Versions mean something within one life of the server only."""
        services.subscribe(self._hear)

    def _hear(self, written: Sequence[Written]) -> None:
        """Receive a commit from the store's thread; never waits."""
        if len(self._heard) > MOST_WAITING:
            self._heard.clear()
            self._reconciled = float("-inf")
        self._heard.extend(job for job, _ in written)

    @contextmanager
    def fresh(self, user: User) -> Iterator[Tiles]:
        """Yield the current tiles, locked against changes: read, and leave soon."""
        with self._lock:
            self._refresh(user)
            yield self._tiles

    def _refresh(self, user: User) -> None:
        now = self._clock()
        self._tiles.take_nodes(self._services.pool.nodes(user))
        if now - self._reconciled >= RECONCILE:
            self._reconciled = now
            self._tiles.keep_jobs(self._services.pool.occupants())
        while self._heard:
            self._tiles.take_job(self._heard.popleft())
        if now - self._measured >= MEASURE:
            self._measured = now
            self._measure()
            # Not at every commit: it waits for the loop's lock.
            self.demand = Demand(*self._services.pool.demand())

    def _measure(self) -> None:
        if not self._services.watched:
            return
        telemetry = self._services.telemetry
        self._tiles.take_use(telemetry.of_gpus())
        self._tiles.take_tags(self._services.pool.tags(), telemetry.faults)
