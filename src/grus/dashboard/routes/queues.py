"""The page of queues: what each may hold, holds, borrows and waits for; up to date while it is open."""

from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.dashboard.page_rendering import page
from grus.dashboard.views.queues import QueueTableRow, rows
from grus.model.interfaces import User
from grus.server.http.auth_middleware import Caller
from grus.server.http.dependencies import Does, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import (
    BEAT,
    HELLO,
    RECONNECT,
    LiveResponse,
    Streams,
    frame,
    json_bytes,
    waited,
)
from grus.server.routes.events import LONGEST, Pace, Seconds

router = APIRouter(include_in_schema=False)

SOONEST = 0.25
"""Seconds between two messages to a page."""
AGAIN = 5.0
"""Seconds after which time alone is a reason to look: shares depend on it, too."""


@router.get("/queues")
async def queues(request: Request, user: Who, does: Does) -> Response:
    return page(request, "queues.html", rows=await off_loop(look, does, user))


@router.get("/live/queues")
async def follow_queues(
    caller: WhoExactly, does: Does, streams: Live, seconds: Seconds = LONGEST
) -> Response:
    """Stream all rows, then those that change; a page that has other queues is asked to reload."""
    return LiveResponse(follow(does, caller, streams, seconds), streams, caller.user.name)


def look(does: Services, user: User) -> list[QueueTableRow]:
    return rows(does.queues.settings(user), does.queues.states(user))


async def follow(
    does: Services, caller: Caller, streams: Streams, seconds: float
) -> AsyncGenerator[bytes, None]:
    """The pieces of a stream."""
    pace = Pace(streams, caller, seconds)
    known: dict[str, QueueTableRow] = {}
    yield HELLO
    while not pace.over:
        ticket = streams.ticket()
        found = {row.name: row for row in await off_loop(look, does, caller.user)}
        if known and list(found) != list(known):
            yield frame("reload", b"{}")
            return
        news = [row for name, row in found.items() if row != known.get(name)]
        known = found
        if news:
            yield frame("queues", json_bytes(news))
            pace.sent()
            await waited(streams.closed, SOONEST)
        if await pace.silence(ticket, AGAIN):
            yield BEAT
    yield RECONNECT
