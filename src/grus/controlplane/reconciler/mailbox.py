"""Mailbox of the control loop: messages that other threads add and the loop takes out.

Lives as long as the loop. Writers never wait for the loop; the loop sleeps here and nowhere else.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from grus.model.interfaces import WorkerStatus, Written
from grus.model.jobs import Job


@dataclass(slots=True)
class Observations:
    """Everything received since the last time, in the order of arrival within its kind."""

    jobs: list[Job] = field(default_factory=list)
    workers: list[WorkerStatus] = field(default_factory=list)
    refresh: list[threading.Event] = field(default_factory=list)
    """Queues, users or cordons changed: read them again, and then notify the waiting callers."""


class Mailbox:
    """Thread-safe; many writers, one reader."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heard = Observations()
        self._woken = False
        self._closed = False

    def jobs(self, written: Sequence[Written]) -> None:
        """Receive a job from the store, as its listener."""
        with self._changed:
            self._heard.jobs.extend(job for job, _ in written)
            self._wake()

    def worker(self, status: WorkerStatus) -> None:
        """Receive a worker's state from the engine, as its listener."""
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
        """Request a pass, independent of the messages received."""
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
        """Return whether there is something to take."""
        return self._woken

    def take(self) -> Observations:
        """Return everything received since the last call."""
        with self._changed:
            heard, self._heard, self._woken = self._heard, Observations(), False
            return heard

    def wait(self, timeout: float) -> None:
        """Wait until a message was received, a caller wakes the loop, it is closed, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self._closed, timeout)

    def rest(self, seconds: float) -> None:
        """Wait this long regardless of messages, but not beyond the close."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def _wake(self) -> None:
        self._woken = True
        self._changed.notify_all()
