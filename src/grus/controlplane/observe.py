"""What the loop has heard and not yet looked at: a mailbox that other threads fill and the loop empties.

Lives as long as the loop. Writers never wait for the loop; the loop sleeps here and nowhere else.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from grus.model.jobs import Job
from grus.model.ports import Event, WorkerStatus


@dataclass(slots=True)
class Heard:
    """Everything since the last time, in the order of arrival within its kind."""

    jobs: list[Job] = field(default_factory=list)
    workers: list[WorkerStatus] = field(default_factory=list)
    refresh: list[threading.Event] = field(default_factory=list)
    """Queues, users or cordons changed: read them again, and then tell those who wait for that."""


class Mailbox:
    """Thread-safe; many writers, one reader."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heard = Heard()
        self._woken = False
        self._closed = False

    def jobs(self, written: Sequence[tuple[Job, Event | None]]) -> None:
        """A listener for the store."""
        with self._changed:
            self._heard.jobs.extend(job for job, _ in written)
            self._wake()

    def worker(self, status: WorkerStatus) -> None:
        """A listener for the engine."""
        with self._changed:
            self._heard.workers.append(status)
            self._wake()

    def refresh(self) -> threading.Event:
        """Ask for the queues, users and cordons to be read again; the event is set when that is done."""
        done = threading.Event()
        with self._changed:
            self._heard.refresh.append(done)
            self._wake()
            if self._closed:
                done.set()
        return done

    def wake(self) -> None:
        """Ask for a pass, whatever was heard."""
        with self._changed:
            self._wake()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for done in self._heard.refresh:
                done.set()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return self._woken

    def take(self) -> Heard:
        """Everything heard since the last call."""
        with self._changed:
            heard, self._heard, self._woken = self._heard, Heard(), False
            return heard

    def wait(self, timeout: float) -> None:
        """Return when something was heard, somebody wakes the loop, it is closed, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self._closed, timeout)

    def rest(self, seconds: float) -> None:
        """Wait this long whatever is heard, but not beyond the close."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def _wake(self) -> None:
        self._woken = True
        self._changed.notify_all()
