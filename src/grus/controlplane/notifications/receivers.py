"""All receivers of a server: started and closed together, listed and tested by administrators."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.api.wire_types.timestamps import rfc3339
from grus.controlplane.notifications.delivery_channel import Receiver
from grus.controlplane.notifications.messages import NAMES, Subscription, probe_message
from grus.controlplane.notifications.sender import DeliveryFailed, Sender, Undeliverable
from grus.controlplane.security import rbac
from grus.model.errors import NotFound
from grus.model.interfaces import Store, User, Written
from grus.store.durable_files import make_folder

WARN_AFTER = 2
"""Failed sendings in a row after which a receiver is shown as failing."""
SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class TestResult:
    """Result of a test message."""

    receiver: str
    error: str
    """Empty if the receiver accepted it."""


class Notifier:
    """For any thread. `folder` holds a cursor for each receiver."""

    def __init__(
        self,
        store: Store,
        channels: Iterable[tuple[Sender, Subscription]] = (),
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._folder = folder
        self._clock = clock
        self._receivers: list[Receiver] = []
        if folder is not None:
            self._receivers = [
                Receiver(sender, wants, store, folder / f"{sender.name}{SUFFIX}", clock)
                for sender, wants in channels
            ]
        self._leave: Callable[[], None] = lambda: None

    # --------------------------------------------------------------------------------- start and stop

    def open(self) -> None:
        """Make the positions last. Called before the control loop starts, so that no event comes first."""
        if self._folder is None:
            return
        if self._receivers:
            make_folder(self._folder)
        self._forget_others(self._folder)
        for receiver in self._receivers:
            receiver.open()

    def start(self) -> None:
        if self._receivers:
            self._leave = self._store.subscribe(self._hear)
        for receiver in self._receivers:
            receiver.start()

    def close(self) -> None:
        """Idempotent."""
        self._leave()
        for receiver in self._receivers:
            receiver.close()

    def _forget_others(self, folder: Path) -> None:
        """Delete the state of receivers that are no longer configured: one that is added again later starts
        with new events.
        """
        names = {f"{receiver.sender.name}{SUFFIX}" for receiver in self._receivers}
        for file in folder.glob(f"*{SUFFIX}"):
            if file.name not in names:
                file.unlink()

    def _hear(self, written: Sequence[Written]) -> None:
        """In the store's thread."""
        if any(event is not None and event.kind in NAMES for _, event in written):
            for receiver in self._receivers:
                receiver.wake()

    # ------------------------------------------------------------------------------------ for users

    def listed(self, user: User) -> list[Receiver]:
        """Raises NotAllowed."""
        rbac.require_admin(user, "see receivers of notifications")
        return list(self._receivers)

    def test(self, user: User, name: str | None = None) -> list[TestResult]:
        """Send a test message now, to one receiver or to all. Raises NotAllowed and NotFound."""
        rbac.require_admin(user, "test notifications")
        chosen = [one for one in self._receivers if name is None or one.sender.name == name]
        if name is not None and not chosen:
            known = ", ".join(one.sender.name for one in self._receivers) or "none is configured"
            raise NotFound(f"there is no receiver of notifications {name[:80]!r}; known: {known}")
        return [self._tested(receiver) for receiver in chosen]

    def _tested(self, receiver: Receiver) -> TestResult:
        now = self._clock()
        try:
            receiver.sender.send(probe_message(now, str(round(now * 1000))), now)
        except (DeliveryFailed, Undeliverable) as error:
            return TestResult(receiver.sender.name, str(error))
        return TestResult(receiver.sender.name, "")

    def failing(self) -> dict[str, float]:
        """Seconds since which each receiver fails; 0 for those that do not."""
        now = self._clock()
        since = {one.sender.name: one.state.failing_since for one in self._receivers}
        return {name: 0.0 if at is None else max(0.0, now - at) for name, at in since.items()}

    def warnings(self) -> tuple[str, ...]:
        """Receivers that fail, a sentence each; without addresses, since everybody may read them."""
        return tuple(
            f"notifications to {one.sender.name} have failed since {rfc3339(state.failing_since)} "
            f"({state.failures} times): {state.error}"
            for one in self._receivers
            if (state := one.state).failing_since is not None and state.failures >= WARN_AFTER
        )
