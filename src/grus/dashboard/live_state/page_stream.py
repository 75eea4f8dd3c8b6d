"""Stream of a page's changes, until what it shows has ended or its time is over."""

from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from grus.server.http.auth_middleware import Caller
from grus.server.http.event_streams import BEAT, END, HELLO, RECONNECT, LiveResponse, Streams, waited
from grus.server.routes.events import Pace

EVERY = 5.0
"""Seconds between two looks without a commit: elapsed times advance, and reports of trials are no commits."""


@dataclass(frozen=True, slots=True)
class PageUpdate:
    """Messages of one look; none if nothing changed."""

    messages: Sequence[bytes]
    ended: bool
    every: float = EVERY
    """Seconds until the next look if nothing is committed."""


def live_page(
    look: Callable[[], Awaitable[PageUpdate]],
    caller: Caller,
    streams: Streams,
    seconds: float,
    *,
    closest: float,
) -> LiveResponse:
    """Stream the updates of a page; looks are at least `closest` seconds apart."""
    return LiveResponse(_updates(look, caller, streams, seconds, closest), streams, caller.user.name)


async def _updates(
    look: Callable[[], Awaitable[PageUpdate]],
    caller: Caller,
    streams: Streams,
    seconds: float,
    closest: float,
) -> AsyncGenerator[bytes, None]:
    pace, clock = Pace(streams, caller, seconds), get_running_loop().time
    yield HELLO
    while not pace.over:
        ticket, began = streams.ticket(), clock()
        update = await look()
        for message in update.messages:
            yield message
        if update.messages:
            pace.sent()
        if update.ended:
            yield END
            return
        if await pace.silence(ticket, update.every):
            yield BEAT
        await waited(streams.closed, max(0.0, closest - (clock() - began)))
    yield RECONNECT
