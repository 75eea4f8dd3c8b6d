"""Ordered calls to the API server, many at once: the calls for one worker are a lane.

Within a lane one call follows the other; different lanes do not wait for each other. A call that cannot be
made yet raises `Later`, and delays its own lane only.
"""

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from itertools import count

from grus.model.errors import Fenced, Unreachable

logger = logging.getLogger(__name__)

Task = Callable[[], None]
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Later(Exception):
    """The task is to be tried again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"in {seconds:g} s")


class Lanes:
    """A number of threads that do what was submitted; `close` ends them after the calls under way."""

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._lanes: dict[Hashable, deque[Task]] = {}
        """Tasks of each lane, the one under way first; a lane without any is not in here."""
        self._ready: deque[Hashable] = deque()
        self._delayed: list[tuple[float, int, Hashable]] = []
        self._tries: dict[Hashable, int] = {}
        self._order = count()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"grus-lane-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, lane: Hashable, task: Task) -> None:
        with self._changed:
            if self._closed:
                return
            if lane in self._lanes:
                self._lanes[lane].append(task)
            else:
                self._lanes[lane] = deque([task])
                self._ready.append(lane)
                self._changed.notify()

    def busy(self, lane: Hashable) -> bool:
        with self._changed:
            return lane in self._lanes

    def settle(self, lane: Hashable, timeout: float) -> bool:
        """Wait until all that was submitted to a lane is done; whether it is."""
        done = threading.Event()
        self.submit(lane, done.set)
        return done.wait(timeout)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while (lane := self._next()) is not None:
            with self._changed:
                task = self._lanes[lane][0]
            pause = self._do(lane, task)
            with self._changed:
                if pause is None:
                    self._tries.pop(lane, None)
                    self._lanes[lane].popleft()
                    if not self._lanes[lane]:
                        del self._lanes[lane]
                        continue
                    self._ready.append(lane)
                else:
                    heapq.heappush(self._delayed, (time.monotonic() + pause, next(self._order), lane))
                self._changed.notify()

    def _next(self) -> Hashable | None:
        """The next lane with something to do; None when all is over."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                while self._delayed and self._delayed[0][0] <= now:
                    self._ready.append(heapq.heappop(self._delayed)[2])
                if self._ready:
                    if len(self._ready) > 1:
                        self._changed.notify()
                    return self._ready.popleft()
                self._changed.wait(self._delayed[0][0] - now if self._delayed else None)
            return None

    def _do(self, lane: Hashable, task: Task) -> float | None:
        """Seconds after which the task is to be done again; None if it is over."""
        try:
            task()
        except Later as later:
            return later.seconds
        except Unreachable as trouble:
            tries = self._tries[lane] = self._tries.get(lane, 0) + 1
            logger.warning("not done yet for %s: %s", lane, trouble)
            return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 10))
        except Fenced as why:
            logger.warning("not done for %s: %s", lane, why)
        except Exception:  # thread boundary: the next turn of the control plane asks again
            logger.exception("a call for %s failed", lane)
        return None
