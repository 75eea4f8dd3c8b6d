"""Writer of annotations on pods and nodes: a few threads, so that no caller waits for an API server.

Of several notes about one object the newest of each kind is kept, and one object has one request under way. A
note that the API server could not accept is sent again; one that it refuses is not.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from grus.kubernetes.client.errors import Conflicts, Missing, Refused, Unreachable

logger = logging.getLogger(__name__)

THREADS = 4
AGAIN = 1.0
"""Seconds until a note that the API server could not accept is sent again."""


@dataclass(frozen=True, slots=True)
class Address:
    """One pod, and no later one of its name; or a node."""

    namespace: str
    """Empty for a node."""
    name: str
    uid: str


@dataclass(slots=True)
class _Pending:
    notes: dict[str, str | None] = field(default_factory=dict)
    not_before: float = 0.0
    busy: bool = False


Notes = Mapping[str, str | None]
"""Annotations by name; None takes one away."""
Send = Callable[[Address, Notes], None]


class Writer:
    """Lives as long as its program. Any thread may `put`."""

    def __init__(self, send: Send, *, threads: int = THREADS, again: float = AGAIN) -> None:
        self._send = send
        self._again = again
        self._change = threading.Condition()
        self._pending: dict[Address, _Pending] = {}
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"grus-writer-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, pod: Address, notes: Notes) -> None:
        """Write these annotations soon."""
        with self._change:
            self._pending.setdefault(pod, _Pending()).notes.update(notes)
            self._change.notify()

    def drop(self, pod: Address) -> None:
        """Drop the notes of an object that is gone."""
        with self._change:
            waiting = self._pending.get(pod)
            if waiting is not None:
                waiting.notes.clear()

    def quiet(self) -> bool:
        """Return whether all notes are written."""
        with self._change:
            return not self._pending

    def close(self) -> None:
        """Write what is waiting, once, and end."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            pod, notes = found
            again = not self._try(pod, notes)
            with self._change:
                waiting = self._pending[pod]
                waiting.busy = False
                if again and not self._closed:
                    waiting.notes = {**notes, **waiting.notes}
                    waiting.not_before = time.monotonic() + self._again
                if waiting.notes:
                    self._change.notify()
                else:
                    del self._pending[pod]

    def _next(self) -> tuple[Address, dict[str, str | None]] | None:
        """Return the next notes to write, once there are any; None at the end."""
        with self._change:
            while True:
                now = time.monotonic()
                idle = {pod: one for pod, one in self._pending.items() if not one.busy and one.notes}
                for pod, waiting in idle.items():
                    if waiting.not_before <= now or self._closed:
                        notes, waiting.notes, waiting.busy = waiting.notes, {}, True
                        return pod, notes
                if self._closed:
                    return None
                pauses = [one.not_before - now for one in idle.values()]
                self._change.wait(min(pauses, default=None))

    def _try(self, pod: Address, notes: Notes) -> bool:
        """Write the notes; return whether they are done with: written, or never to be written."""
        try:
            self._send(pod, notes)
        except Unreachable as trouble:
            logger.warning("%s/%s: %s", pod.namespace, pod.name, trouble)
            return False
        except (Missing, Conflicts):  # it is gone, or another has its name
            return True
        except Refused:
            logger.exception("%s/%s could not be told", pod.namespace, pod.name)
        except Exception:  # thread boundary: other threads wait for this one
            logger.exception("%s/%s could not be told", pod.namespace, pod.name)
            return False
        return True
