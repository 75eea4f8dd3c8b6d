"""Listeners for commits. A listener that fails is logged; it stops neither the store nor others."""

import logging
import threading
from collections.abc import Callable, Sequence

from grus.model.jobs import Job
from grus.model.ports import Event

Written = tuple[Job, Event | None]
Listener = Callable[[Sequence[Written]], None]

log = logging.getLogger(__name__)


class Listeners:
    """A set of listeners that any thread may join or leave at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[int, Listener] = {}
        self._next = 0

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return the function that removes it, which may be called more than once."""
        with self._lock:
            number = self._next
            self._next += 1
            self._listeners[number] = listener

        def leave() -> None:
            with self._lock:
                self._listeners.pop(number, None)

        return leave

    def tell(self, written: Sequence[Written]) -> None:
        with self._lock:
            present = list(self._listeners.values())
        for listener in present:
            try:
                listener(written)
            except Exception:  # foreign code on the store's thread, which must not die
                log.exception("a listener of the store failed on %d writes; the store goes on", len(written))
