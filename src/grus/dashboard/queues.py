"""The page of queues: what each may hold, holds, borrows and waits for; up to date while it is open."""

from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.controlplane.services import Services
from grus.dashboard.pages import page
from grus.dashboard.queues_view import Row, rows
from grus.model.ports import User
from grus.server.edge import Does, Live, Who, WhoExactly, off_loop
from grus.server.gate import Caller
from grus.server.live import LONGEST, Pace, Seconds
from grus.server.streams import BEAT, HELLO, RECONNECT, LiveResponse, Streams, frame, json_bytes, waited

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
    """All rows, then those that change; a page that has other queues is told to load again."""
    return LiveResponse(follow(does, caller, streams, seconds), streams, caller.user.name)


def look(does: Services, user: User) -> list[Row]:
    return rows(does.queue_settings(user), does.queues(user))


async def follow(
    does: Services, caller: Caller, streams: Streams, seconds: float
) -> AsyncGenerator[bytes, None]:
    """The pieces of a stream."""
    pace = Pace(streams, caller, seconds)
    known: dict[str, Row] = {}
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
