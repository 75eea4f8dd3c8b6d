"""Background thread: one step, repeated until closed."""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Step = Callable[[], float | None]
"""One round of work. Returns the seconds until the next; None to wait for `wake`."""


class BackgroundThread:
    """Thread that repeats a step: after the pause that the step returned, or as soon as it is woken.

    A step that raises is logged and repeated after `retry` seconds, so that one error does not end the
    work for good. Set `closing` inside the step to end from within.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        *,
        first: float | None = 0.0,
        retry: float = 1.0,
        settle: float = 0.0,
        rest: float = 0.0,
        finish: bool = False,
    ) -> None:
        """`first`: seconds until the first step, None to wait for `wake`. `settle`: seconds between a wake
        and its step, so that several share one. `rest`: pause after each step, as a ratio of its CPU time,
        in which nothing wakes the thread. `finish`: take one more step at the end.
        """
        self.closing = threading.Event()
        self._name = name
        self._step = step
        self._pause = first
        self._retry = retry
        self._settle = settle
        self._rest = rest
        self._finish = finish
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Start the next step at once, or right after the present one. Does not block."""
        self._woken.set()

    def rest(self, seconds: float) -> bool:
        """Wait inside a step, even if the thread is woken; return whether it is to end."""
        return self.closing.wait(seconds)

    def ask_to_close(self) -> None:
        """End after the present step. Does not block."""
        self.closing.set()
        self._woken.set()

    def close(self, patience: float | None = None) -> None:
        """End after the present step, and wait for that, at most `patience` seconds. Idempotent."""
        self.ask_to_close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(patience)

    def _run(self) -> None:
        while not self.closing.is_set():
            self._woken.wait(self._pause)
            self.rest(self._settle)
            self._woken.clear()
            if not self.closing.is_set():
                began = time.thread_time()
                self._pause = self._attempt()
                self.rest(self._rest * (time.thread_time() - began))
        if self._finish:
            self._attempt()

    def _attempt(self) -> float | None:
        try:
            return self._step()
        except Exception:  # the edge of the thread: without it the work would stop for good
            log.exception("%s failed; it is tried again", self._name)
            return self._retry
