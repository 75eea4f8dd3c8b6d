"""Writer of annotations on pods and nodes: a few threads, so that no caller waits for an API server.

Of several notes about one object the newest of each kind is kept, and one object has one request under way. A
note that the API server could not accept is sent again; one that it refuses is not.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grus.concurrency.workqueue import WorkQueue
from grus.kubernetes.client.errors import Conflicts, Missing, Unreachable

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


Notes = Mapping[str, str | None]
"""Annotations by name; None takes one away."""
Send = Callable[[Address, Notes], None]


class Writer:
    """Lives as long as its program. Any thread may `put`."""

    def __init__(self, send: Send, *, threads: int = THREADS, again: float = AGAIN) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._pending: dict[Address, dict[str, str | None]] = {}
        """Notes to be sent, by object; none beside those that are on their way."""
        self._closed = False
        self._queue: WorkQueue[Address] = WorkQueue(first_pause=again, longest_pause=again)
        self._threads = [
            threading.Thread(target=self._run, name=f"grus-writer-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, pod: Address, notes: Notes) -> None:
        """Write these annotations soon."""
        with self._lock:
            self._pending.setdefault(pod, {}).update(notes)
        self._queue.add(pod)

    def drop(self, pod: Address) -> None:
        """Drop the notes of an object that is gone."""
        with self._lock:
            self._pending.get(pod, {}).clear()

    def quiet(self) -> bool:
        """Return whether all notes are written."""
        with self._lock:
            return not self._pending

    def close(self) -> None:
        """Write what is waiting, once, and end."""
        self._closed = True
        self._queue.close()
        for thread in self._threads:
            thread.join()
        while self._pending:
            self._try(*self._pending.popitem())

    def _run(self) -> None:
        while (pod := self._queue.take()) is not None:
            with self._lock:
                notes = self._pending.get(pod, {})
                if pod in self._pending:
                    self._pending[pod] = {}
            done = self._try(pod, notes)
            with self._lock:
                if not done and not self._closed:
                    self._pending[pod] = {**notes, **self._pending[pod]}
                elif not self._pending.get(pod):
                    self._pending.pop(pod, None)
            if done:
                self._queue.done(pod)
            else:
                self._queue.failed(pod)

    def _try(self, pod: Address, notes: Notes) -> bool:
        """Write the notes; return whether they are done with: written, or never to be written."""
        if not notes:
            return True
        try:
            self._send(pod, notes)
        except Unreachable as trouble:
            logger.warning("%s/%s: %s", pod.namespace, pod.name, trouble)
            return False
        except (Missing, Conflicts):  # it is gone, or another has its name
            return True
        except Exception:  # the edge of the thread: what is refused, or a defect, does not heal by repetition
            logger.exception("%s/%s could not be annotated", pod.namespace, pod.name)
        return True
