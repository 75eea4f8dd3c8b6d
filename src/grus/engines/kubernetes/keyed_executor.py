"""Ordered calls to the API server, many at once: the calls for one worker are a lane.

Within a lane one call follows the other; different lanes do not wait for each other. A call that cannot be
made yet raises `Later`, and delays its own lane only.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable

from grus.concurrency.workqueue import WorkQueue
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
        self._lock = threading.Lock()
        self._tasks: dict[Hashable, deque[Task]] = {}
        """Tasks of each lane, the one under way first; a lane without any is not in here."""
        self._queue: WorkQueue[Hashable] = WorkQueue(first_pause=FIRST_PAUSE, longest_pause=LONGEST_PAUSE)
        self._threads = [
            threading.Thread(target=self._run, name=f"grus-lane-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, lane: Hashable, task: Task) -> None:
        with self._lock:
            waiting = self._tasks.setdefault(lane, deque())
            waiting.append(task)
            if len(waiting) == 1:
                self._queue.add(lane)

    def busy(self, lane: Hashable) -> bool:
        with self._lock:
            return lane in self._tasks

    def settle(self, lane: Hashable, timeout: float) -> bool:
        """Wait until all that was submitted to a lane is done; whether it is."""
        done = threading.Event()
        self.submit(lane, done.set)
        return done.wait(timeout)

    def close(self) -> None:
        self._queue.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while (lane := self._queue.take()) is not None:
            try:
                self._tasks[lane][0]()
            except Later as later:
                self._queue.add(lane, later.seconds)
                self._queue.done(lane)
                continue
            except Unreachable as trouble:
                logger.warning("not done yet for %s: %s", lane, trouble)
                self._queue.failed(lane)
                continue
            except Fenced as why:
                logger.warning("not done for %s: %s", lane, why)
            except Exception:  # the edge of the thread: the next pass of the control plane asks again
                logger.exception("a call for %s failed", lane)
            self._finish(lane)

    def _finish(self, lane: Hashable) -> None:
        """Remove the task that is over, and let the next one of the lane follow."""
        with self._lock:
            self._tasks[lane].popleft()
            if self._tasks[lane]:
                self._queue.add(lane)
            else:
                del self._tasks[lane]
        self._queue.done(lane)
