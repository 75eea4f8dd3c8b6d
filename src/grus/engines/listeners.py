"""Listeners to changes of workers. An error in one is logged, and does not keep the others from the news."""

import logging
import threading
from collections.abc import Callable

from grus.model.ports import WorkerStatus

log = logging.getLogger(__name__)

Listener = Callable[[WorkerStatus], None]


class Listeners:
    """Any thread may join or leave at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[int, Listener] = {}
        self._next = 0

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return the unsubscriber, which may be called more than once."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._listeners[number] = listener

        def leave() -> None:
            with self._lock:
                self._listeners.pop(number, None)

        return leave

    def tell(self, status: WorkerStatus) -> None:
        with self._lock:
            present = list(self._listeners.values())
        for listener in present:
            try:
                listener(status)
            except Exception:  # a listener's error must not keep the news from the others
                log.exception("a listener failed on the news of worker %s", status.id)
