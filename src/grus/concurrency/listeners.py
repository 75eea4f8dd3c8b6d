"""Listener registry: functions that are called with each change, from the thread that made it."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

News = TypeVar("News")


class Listeners(Generic[News]):
    """Listeners to one kind of change. Any thread may add and remove."""

    def __init__(self, subject: str) -> None:
        """`subject` names in the log what the listeners listen to."""
        self._subject = subject
        self._lock = threading.Lock()
        self._listeners: dict[int, Callable[[News], None]] = {}
        self._next = 0

    def add(self, listener: Callable[[News], None]) -> Callable[[], None]:
        """Add a listener; return the function that removes it, which may be called more than once."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._listeners[number] = listener

        def leave() -> None:
            with self._lock:
                self._listeners.pop(number, None)

        return leave

    def tell(self, news: News) -> None:
        """Call all listeners. An error of one is logged and keeps the news from no other."""
        with self._lock:
            present = list(self._listeners.values())
        for listener in present:
            try:
                listener(news)
            except Exception:  # code of others on the caller's thread, which must go on
                log.exception("a listener to %s failed", self._subject)
