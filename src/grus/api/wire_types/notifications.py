"""Wire models of notification receivers, out, and test messages, in and out. No secret and no path of an
address leaves.
"""

from typing import Annotated

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import Strict
from grus.api.wire_types.base import Convert, Derived, Out, Source, Timestamp


class ReceiverOut(Out):
    """A receiver of notifications, and its state since the server started."""

    name: Annotated[str, Source("sender.name")]
    channel: Annotated[str, Source("sender.channel")]
    """webhook or email."""
    target: Annotated[str, Source("sender.target")]
    """The receiving host."""
    events: Annotated[tuple[str, ...], Source("subscription.events"), Convert(sorted)]
    queues: Annotated[tuple[str, ...], Source("subscription.queues"), Convert(sorted)] = ()
    users: Annotated[tuple[str, ...], Source("subscription.users"), Convert(sorted)] = ()
    delivered: Annotated[int, Source("state.delivered")] = 0
    undeliverable: Annotated[int, Source("state.undeliverable")] = 0
    last_at: Annotated[Timestamp | None, Source("state.last_at")] = None
    """Time of the last accepted message."""
    failures: Annotated[int, Source("state.failures")] = 0
    """Failed sendings since then."""
    failing_since: Annotated[Timestamp | None, Source("state.failing_since")] = None
    error: Annotated[str, Source("state.error")] = ""


class NotificationTestIn(Strict):
    """A test message to one receiver, or to all of them."""

    receiver: Annotated[str | None, f.judged(f.optional(f.name))] = None


class NotificationTestOut(Out):
    """Result of a test message."""

    receiver: str
    delivered: Annotated[bool, Derived(lambda message: not message.error)]
    error: str = ""
