"""Wire models of notification receivers, out, and test messages, in and out. No secret and no path of an
address leaves.
"""

from typing import Annotated

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import Strict
from grus.api.wire_types.base import Out


class ReceiverOut(Out):
    """A receiver of notifications, and its state since the server started."""

    name: str
    channel: str
    """webhook or email."""
    target: str
    """The receiving host."""
    events: tuple[str, ...]
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    delivered: int = 0
    undeliverable: int = 0
    last_at: str | None = None
    """Time of the last accepted message."""
    failures: int = 0
    """Failed sendings since then."""
    failing_since: str | None = None
    error: str = ""


class NotificationTestIn(Strict):
    """A test message to one receiver, or to all of them."""

    receiver: Annotated[str | None, f.judged(f.optional(f.name))] = None


class NotificationTestOut(Out):
    """Result of a test message."""

    receiver: str
    delivered: bool
    error: str = ""
