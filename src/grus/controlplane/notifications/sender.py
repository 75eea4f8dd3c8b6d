"""Port (interface) of a notification channel."""

from typing import Protocol

from grus.controlplane.notifications.messages import Notification


class DeliveryFailed(Exception):
    """A message was not accepted; its text holds neither a secret nor the path of an address."""


class Undeliverable(Exception):
    """The receiver will never accept this message; the next one may do better."""


class Sender(Protocol):
    """Sends one message at a time. For any thread."""

    name: str
    channel: str
    """`webhook` or `email`."""
    target: str
    """Receiving host, as shown to users."""

    def send(self, message: Notification, now: float) -> None:
        """Return after the receiver has accepted it. Raises DeliveryFailed or Undeliverable."""
        ...

    def close(self) -> None:
        """Idempotent. A sending under way may fail."""
        ...
