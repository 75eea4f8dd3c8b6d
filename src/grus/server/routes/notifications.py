"""Routes of notifications, for administrators: receivers and their state, and a test message."""

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.wire_types.notifications import NotificationTestIn, NotificationTestOut, ReceiverOut
from grus.server.http.dependencies import Does, Who, answers, off_loop

router = APIRouter(prefix="/v1", tags=["notifications"])


@router.get("/notifications", response_model=list[ReceiverOut])
async def list_receivers(user: Who, does: Does) -> Response:
    """Receivers of notifications, with what became of their messages since the server started."""
    found = await off_loop(does.notifications.listed, user)
    return answers(ReceiverOut, [ReceiverOut.from_model(one) for one in found])


@router.post("/notifications/test", response_model=list[NotificationTestOut])
async def send_test(body: NotificationTestIn, user: Who, does: Does) -> Response:
    """Send a test message now and say what each receiver answered."""
    found = await off_loop(does.notifications.test, user, body.receiver)
    return answers(NotificationTestOut, [NotificationTestOut.from_model(one) for one in found])
