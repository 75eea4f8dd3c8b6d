"""The page of one job: how it stands and why, its life as a strip, charts, its log, what can be done."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from grus.dashboard.live_state.job_detail import JobView, charts
from grus.dashboard.live_state.page_stream import PageUpdate, live_page
from grus.dashboard.page_rendering import page
from grus.dashboard.views.job_detail import event_rows, fixed, parts
from grus.model.identifiers import JobId
from grus.model.jobs import HOLDING
from grus.server.http.dependencies import Does, JobPath, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import frame, json_bytes
from grus.server.routes.events import LONGEST, Seconds

router = APIRouter(include_in_schema=False)

MOST_EVENTS = 300
"""Events on the page; older ones are read by `grus describe`."""
CLOSEST = 0.25
"""Seconds between two looks, however often something is committed."""
EVERY = 1.0
"""Seconds between two looks at a running job: no event reports changes of its metrics."""
SELDOM = 3.0
"""The same of one that waits: others may have changed what it waits for."""

Back = Annotated[
    float | None, Query(gt=0, le=LONGEST * 24 * 400, description="Seconds; all its life if none.")
]


@router.get("/jobs/{id}")
async def one_job(id: JobPath, request: Request, user: Who, does: Does) -> Response:
    look = JobView(does, user, JobId(id))
    if (await off_loop(does.visible.get, user, JobId(id))).spec.sweep is not None:
        return RedirectResponse(
            f"/sweeps/{quote(id, safe='')}", 303
        )  # what can be said of a sweep is on a page of its own
    seen = await off_loop(look.now, does.clock())
    told = {"now": seen.now, **parts(seen), "events": event_rows(look.events[-MOST_EVENTS:])}
    return page(request, "job.html", job=fixed(seen.job), told=told, texts=told["texts"])


@router.get("/jobs/{id}/charts.json")
async def job_charts(id: JobPath, user: Who, does: Does, back: Back = None) -> Response:
    return JSONResponse(await off_loop(charts, does, user, JobId(id), does.clock(), back))


@router.get("/live/jobs/{id}")
async def follow(
    id: JobPath, caller: WhoExactly, does: Does, streams: Live, seconds: Seconds = LONGEST
) -> Response:
    """Its parts as they change, beginning with all of them, until it has ended."""
    look = await off_loop(JobView(does, caller.user, JobId(id)).learn)
    sent: dict[str, bytes] = {}

    async def update() -> PageUpdate:
        known = len(look.events)
        seen = await off_loop(look.now, does.clock())
        told = {name: json_bytes(part) for name, part in parts(seen).items()}
        messages = []
        if new := look.events[known:][-MOST_EVENTS:]:
            messages.append(frame("events", json_bytes(event_rows(new))))
        if changed := {name: part for name, part in told.items() if part != sent.get(name)}:
            sent.update(changed)
            messages.append(frame("job", _joined(seen.now, changed)))
        return PageUpdate(messages, seen.job.terminal, EVERY if seen.job.phase in HOLDING else SELDOM)

    return live_page(update, caller, streams, seconds, closest=CLOSEST)


def _joined(now: float, parts: dict[str, bytes]) -> bytes:
    """One JSON object out of parts that are JSON already."""
    inside = b",".join(b'"%s":%s' % (name.encode(), part) for name, part in parts.items())
    return b'{"now":%s,%s}' % (json_bytes(now), inside)
