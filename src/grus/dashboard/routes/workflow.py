"""Page of a workflow: its stages, drawn in order of their dependencies, with their states; live."""

from asyncio import get_running_loop
from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.dashboard.page_rendering import page
from grus.dashboard.views.workflow import drawn, parts, standing, summary
from grus.dashboard.views.workflow_dag_layout import HEIGHT, WIDTH
from grus.model.identifiers import JobId
from grus.server.http.auth_middleware import Caller
from grus.server.http.dependencies import Does, JobPath, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import (
    BEAT,
    END,
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

CLOSEST = 0.5
"""Seconds between two looks, however often something is committed."""
EVERY = 5.0
"""Seconds between two updates without changes: elapsed times still advance."""


@router.get("/graphs/{id}")
async def one_graph(id: JobPath, request: Request, user: Who, does: Does) -> Response:
    found = await off_loop(does.graphs.of, user, JobId(id))
    told = parts(found, does.clock())
    return page(request, "graph.html", id=id, drawing=drawn(found), width=WIDTH, height=HEIGHT, told=told)


@router.get("/live/graphs/{id}")
async def follow(
    id: JobPath, caller: WhoExactly, does: Does, streams: Live, seconds: Seconds = LONGEST
) -> Response:
    """Stages whose standing changed, first all of them, until the last one has ended."""
    await off_loop(does.graphs.of, caller.user, JobId(id))
    return LiveResponse(_changes(does, JobId(id), caller, streams, seconds), streams, caller.user.name)


async def _changes(
    does: Services, id_: JobId, caller: Caller, streams: Streams, seconds: float
) -> AsyncGenerator[bytes, None]:
    pace, clock = Pace(streams, caller, seconds), get_running_loop().time
    sent: dict[JobId, dict[str, object]] = {}
    yield HELLO
    while not pace.over:
        ticket, began = streams.ticket(), clock()
        found = await off_loop(does.graphs.of, caller.user, id_)
        now = {one.job.id: standing(one, does.clock()) for one in found.stages}
        if changed := [stage for job, stage in now.items() if sent.get(job) != stage]:
            sent = now
            yield frame("graph", json_bytes({"stages": changed, "summary": summary(found)}))
            pace.sent()
        if all(one.job.terminal for one in found.stages):
            yield END
            return
        if await pace.silence(ticket, EVERY):
            yield BEAT
        await waited(streams.closed, max(0.0, CLOSEST - (clock() - began)))
    yield RECONNECT
