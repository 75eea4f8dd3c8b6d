"""Routes of notifications, for administrators: receivers and their state, and a test message."""

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.wire_types.notifications import NotificationTestIn, NotificationTestOut, ReceiverOut
from grus.api.wire_types.timestamps import maybe_rfc3339
from grus.controlplane.notifications.delivery_channel import Receiver
from grus.server.http.dependencies import Does, Who, answers, off_loop

router = APIRouter(prefix="/v1", tags=["notifications"])


@router.get("/notifications", response_model=list[ReceiverOut])
async def list_receivers(user: Who, does: Does) -> Response:
    """Receivers of notifications, with what became of their messages since the server started."""
    found = await off_loop(does.notifications.listed, user)
    return answers(ReceiverOut, [_receiver_out(one) for one in found])


@router.post("/notifications/test", response_model=list[NotificationTestOut])
async def send_test(body: NotificationTestIn, user: Who, does: Does) -> Response:
    """Send a test message now and say what each receiver answered."""
    found = await off_loop(does.notifications.test, user, body.receiver)
    return answers(
        NotificationTestOut,
        [
            NotificationTestOut(receiver=one.receiver, delivered=not one.error, error=one.error)
            for one in found
        ],
    )


def _receiver_out(one: Receiver) -> ReceiverOut:
    state, wants = one.state, one.subscription
    return ReceiverOut(
        name=one.sender.name,
        channel=one.sender.channel,
        target=one.sender.target,
        events=tuple(sorted(wants.events)),
        queues=tuple(sorted(wants.queues)),
        users=tuple(sorted(wants.users)),
        delivered=state.delivered,
        undeliverable=state.undeliverable,
        last_at=maybe_rfc3339(state.last_at),
        failures=state.failures,
        failing_since=maybe_rfc3339(state.failing_since),
        error=state.error,
    )
