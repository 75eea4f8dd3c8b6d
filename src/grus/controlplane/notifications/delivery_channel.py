"""Delivery to one receiver: in the order of the event log, retried without limit, on a thread of its own."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane.notifications.cursor import Cursor, Position, starting_position
from grus.controlplane.notifications.messages import NAMES, Notification, Subscription, notification_of
from grus.controlplane.notifications.sender import DeliveryFailed, Sender, Undeliverable
from grus.model.errors import NotFound
from grus.model.interfaces import Event, Store
from grus.model.jobs import job_backoff

log = logging.getLogger(__name__)

PAGE = 500
"""Events read at once."""
LONGEST_REST = 60.0
"""Seconds without news after which the log is read all the same."""
PATIENCE = 5.0
"""Seconds that a server that ends waits for a message that is being sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """State of one receiver since the server started."""

    delivered: int = 0
    undeliverable: int = 0
    """Messages that the receiver refused for good; they are in the server's log."""
    last_at: float | None = None
    failures: int = 0
    """Failed sendings since the last one that was accepted."""
    failing_since: float | None = None
    error: str = ""


class Receiver:
    """`start` and `close` for a thread; `open` and `deliver` to drive it by hand."""

    def __init__(
        self,
        sender: Sender,
        subscription: Subscription,
        store: Store,
        file: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sender = sender
        self.subscription = subscription
        self.state = Delivery()
        self._store = store
        self._cursor = Cursor(file)
        self._clock = clock
        self._position = Position(0)
        self._thread = BackgroundThread(f"notify-{sender.name}", self._round)

    # --------------------------------------------------------------------------------- start and stop

    def open(self) -> None:
        """Find the position to continue from and make it last, before anything new happens."""
        known = self._cursor.load()
        self._position = starting_position(self._store, known)
        if self._position != known:
            if known is not None:
                log.warning(
                    "the event log was replaced; notifications to %s continue with the next event",
                    self.sender.name,
                )
            self._cursor.save(self._position)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Signal that something was written. Does not block."""
        self._thread.wake()

    def close(self) -> None:
        """Idempotent. What was not accepted yet is sent by the next server."""
        self._thread.ask_to_close()
        self.sender.close()
        self._thread.close(PATIENCE)

    def _round(self) -> float:
        try:
            if self.deliver():
                return LONGEST_REST
        except Exception:  # the edge of the thread: an undelivered message is tried again
            log.exception("notifications to %s stopped; tried again later", self.sender.name)
            self._failed("an internal error; see the server's log")
        self._thread.rest(job_backoff(self.state.failures))
        return 0.0

    # ------------------------------------------------------------------------------------- delivering

    def deliver(self) -> bool:
        """Send what the log holds after the cursor, up to the first failure; False if there was one."""
        while page := self._store.events(after=self._position.seq, limit=PAGE):
            for event in page:
                if self._thread.closing.is_set():
                    return True
                message = self._message(event)
                if message is not None and not self._sent(message):
                    return False
                self._position = Position(event.seq, event.at)
                if message is not None:
                    self._cursor.save(self._position)
        return True

    def _message(self, event: Event) -> Notification | None:
        """None for events that are not for this receiver, and for those of jobs that are gone."""
        if event.job is None or event.kind not in NAMES:
            return None
        try:
            message = notification_of(event, self._store.job(event.job))
        except NotFound:
            return None
        return message if message is not None and self.subscription.wants(message) else None

    def _sent(self, message: Notification) -> bool:
        now = self._clock()
        try:
            self.sender.send(message, now)
        except DeliveryFailed as error:
            self._failed(str(error))
            return False
        except Undeliverable as error:
            log.error("notification %s to %s is undeliverable: %s", message.id, self.sender.name, error)
            self.state = replace(self.state, undeliverable=self.state.undeliverable + 1)
            return True
        if self.state.failures:
            log.info("notifications to %s are accepted again", self.sender.name)
        delivered, gone = self.state.delivered + 1, self.state.undeliverable
        self.state = Delivery(delivered=delivered, undeliverable=gone, last_at=now)
        return True

    def _failed(self, why: str) -> None:
        if self._thread.closing.is_set():
            return  # the sending was interrupted
        state = self.state
        if not state.failures:
            log.warning("notifications to %s fail and are retried: %s", self.sender.name, why)
        self.state = replace(
            state,
            failures=state.failures + 1,
            failing_since=self._clock() if state.failing_since is None else state.failing_since,
            error=why,
        )
