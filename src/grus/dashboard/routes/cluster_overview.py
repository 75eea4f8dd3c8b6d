"""The first page: every GPU of the pool, who is on it and how busy it is, up to date while it is open."""

import asyncio
from collections.abc import AsyncGenerator
from functools import cache, partial
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response

from grus.controlplane.facade.services import Services
from grus.controlplane.monitoring.series_query import Whose
from grus.controlplane.monitoring.trend_forecast import Reach
from grus.dashboard.live_state.pool_now import MEASURE, PoolNow
from grus.dashboard.page_rendering import page
from grus.dashboard.views import cluster_tiles as views
from grus.dashboard.views.cluster_tiles import SumsView, Viewer
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

SOONEST = 0.1
"""Seconds between two messages to a page: people read no faster, and many commits are merged."""
SUMS = 1.0
"""Seconds between two messages with the sums: they are at the top, and everything below is laid out again for
them.
"""


class PageVersion(NamedTuple):
    """Up to where a page is up to date: which life of the server, which layout, which version."""

    life: str
    layout: int
    version: int

    def __str__(self) -> str:
        return f"{self.life}.{self.layout}.{self.version}"


class PoolUpdate(NamedTuple):
    """A stream's message (empty if there is nothing new), and the page's state after it."""

    mark: PageVersion
    sums: SumsView | None = None
    data: bytes = b""


@router.get("/")
async def pool(
    request: Request,
    user: Who,
    does: Does,
    by: Literal["node", "type"] = "node",
    tiles: Literal["", "roomy", "dense", "tiny"] = "",
) -> Response:
    return await off_loop(_page, request, the_pool(request, does), user, does, by == "type", tiles)


@router.get("/live/pool")
async def follow_pool(
    request: Request,
    caller: WhoExactly,
    does: Does,
    streams: Live,
    since: Annotated[str, Query(max_length=64)] = "",
    seconds: Seconds = LONGEST,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=64)] = None,
) -> Response:
    """Stream the changes since a mark; a page of another layout or an earlier server is asked to reload."""
    now = the_pool(request, does)
    told = _pool(now, does, caller, streams, mark(last or since), seconds)
    return LiveResponse(told, streams, caller.user.name)


@router.get("/pool/outlook")
async def outlook(user: Who, does: Does) -> Response:
    """The next hour in words. By itself, since a forecast may take a while to work out."""
    if not does.watched:
        return JSONResponse({"text": "No forecast: this server records no telemetry."})
    prospect = await off_loop(does.prospects.of, user, Whose.POOL, "", Reach.HOUR)
    usable = sum(device.usable for node in does.pool.nodes(user) for device in node.devices)
    return JSONResponse({"text": views.outlook(prospect, usable)})


def the_pool(request: Request, does: Services) -> PoolNow:
    """The server's one. Called in the event loop only, so that there is never a second."""
    state = request.app.state
    if not hasattr(state, "pool_now"):
        state.pool_now = PoolNow(does)
    found = state.pool_now
    assert isinstance(found, PoolNow)
    return found


def viewer_of(user: User, does: Services) -> Viewer:
    """Return the viewer for one look: there are far fewer owners than GPUs, and each owner is checked
    once.
    """
    return Viewer(name=user.name, sees=cache(partial(does.visible.sees, user)))


def _page(request: Request, now: PoolNow, user: User, does: Services, by_type: bool, tiles: str) -> Response:
    viewer = viewer_of(user, does)
    with now.fresh(user) as found:
        groups = views.groups(found, viewer, by_type=by_type)
        types = views.types_of(found.tiles)
        sums = views.sums_view(found.sums(), now.demand)
        mark = PageVersion(now.life, found.layout, found.version)
    return page(
        request,
        "pool.html",
        groups=groups,
        types=types,
        sums=sums,
        mark=mark,
        tiles=tiles,
        sizes=views.SIZES,
        density=tiles or views.density(sum(count for _, count in types)),
        by_type=by_type,
        step=views.step,
    )


# ------------------------------------------------------------------------------------------------- the stream


async def _pool(
    now: PoolNow, does: Services, caller: Caller, streams: Streams, at: PageVersion, seconds: float
) -> AsyncGenerator[bytes, None]:
    pace = Pace(streams, caller, seconds)
    clock = asyncio.get_running_loop().time
    shown, due = PoolUpdate(at), 0.0
    yield HELLO
    while not pace.over:
        ticket = streams.ticket()
        told = await off_loop(_news, now, caller.user, does, shown, sums_due=clock() >= due)
        if told.mark[:2] != at[:2]:
            yield frame("reload", b"{}")
            return
        if told.sums != shown.sums:
            due = clock() + SUMS
        shown = told
        if told.data:
            yield frame("pool", told.data, str(told.mark))
            pace.sent()
            await waited(streams.closed, SOONEST)
        if await pace.silence(ticket, MEASURE):
            yield BEAT
    yield RECONNECT


def _news(now: PoolNow, user: User, does: Services, shown: PoolUpdate, *, sums_due: bool) -> PoolUpdate:
    """Return the news for this user."""
    viewer, at = viewer_of(user, does), shown.mark
    with now.fresh(user) as tiles:
        mark = PageVersion(now.life, tiles.layout, tiles.version)
        if mark[:2] != at[:2]:
            return PoolUpdate(mark)
        news = tiles.since(at.version)
        sums = views.sums_view(tiles.sums(), now.demand) if sums_due else shown.sums
        if not (news.tiles or news.use or news.nodes) and sums == shown.sums:
            return PoolUpdate(mark, sums)
        told = {
            "tiles": [views.tile_view(tile, viewer) for tile in news.tiles],
            "use": [views.use_view(n, tiles.use(n), tiles.tiles[n].device.memory) for n in news.use],
            "nodes": [views.node_view(node) for node in news.nodes],
            "sums": sums if sums != shown.sums else None,
        }
    return PoolUpdate(mark, sums, json_bytes(told))


def mark(text: str) -> PageVersion:
    """A mark as a page gives it back; what is none is one of no life, so that the page loads again."""
    life, _, rest = text.partition(".")
    layout, _, version = rest.partition(".")
    if not (layout.isdecimal() and version.isdecimal()):
        return PageVersion("", 0, 0)
    return PageVersion(life, int(layout), int(version))
