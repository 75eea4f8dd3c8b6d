"""Page of a workflow: its stages, drawn in order of their dependencies, with their states; live."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.dashboard.live_state.page_stream import PageUpdate, live_page
from grus.dashboard.page_rendering import page
from grus.dashboard.views.workflow import drawn, parts, standing, summary
from grus.dashboard.views.workflow_dag_layout import HEIGHT, WIDTH
from grus.model.identifiers import JobId
from grus.server.http.dependencies import Does, JobPath, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import frame, json_bytes
from grus.server.routes.events import LONGEST, Seconds

router = APIRouter(include_in_schema=False)

CLOSEST = 0.5
"""Seconds between two looks, however often something is committed."""


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
    sent: dict[JobId, dict[str, object]] = {}

    async def update() -> PageUpdate:
        found = await off_loop(does.graphs.of, caller.user, JobId(id))
        now = {one.job.id: standing(one, does.clock()) for one in found.stages}
        messages = []
        if changed := [stage for job, stage in now.items() if sent.get(job) != stage]:
            sent.update(now)
            messages.append(frame("graph", json_bytes({"stages": changed, "summary": summary(found)})))
        return PageUpdate(messages, all(one.job.terminal for one in found.stages))

    return live_page(update, caller, streams, seconds, closest=CLOSEST)
