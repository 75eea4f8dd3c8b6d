"""The page of a sweep: its trials in a table and in charts, the best so far, what can be done; live."""

from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.controlplane.sweeps.sweep_summary import SweepView
from grus.dashboard.live_state.page_stream import PageUpdate, live_page
from grus.dashboard.page_rendering import page
from grus.dashboard.views.sweep import SweepPageData, about, charts, columns, parts, row
from grus.dashboard.views.sweep_search_data import SweepSnapshot, TrialRow
from grus.model.identifiers import JobId
from grus.model.interfaces import User
from grus.model.jobs import TERMINAL
from grus.model.texts.units import gpu_number
from grus.server.http.dependencies import Does, JobPath, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import frame, json_bytes
from grus.server.routes.events import LONGEST, Seconds

router = APIRouter(include_in_schema=False)

CLOSEST = 1.0
"""Seconds between two looks, however often something is committed: each reads what all trials reported."""


@router.get("/sweeps/{id}")
async def one_sweep(id: JobPath, request: Request, user: Who, does: Does) -> Response:
    seen = await off_loop(look, does, user, JobId(id))
    told = {**parts(seen), "trials": [row(one, seen.search) for one in seen.search.trials]}
    return page(
        request,
        "sweep.html",
        sweep=about(seen.job, seen.search),
        columns=columns(seen.search),
        by=seen.search.sweep.stopping.by,
        told=told,
        texts=told["texts"],
    )


@router.get("/sweeps/{id}/charts.json")
async def sweep_charts(id: JobPath, user: Who, does: Does) -> Response:
    seen = await off_loop(look, does, user, JobId(id))
    return Response(json_bytes(charts(seen.search)), media_type="application/json")


@router.get("/live/sweeps/{id}")
async def follow(
    id: JobPath, caller: WhoExactly, does: Does, streams: Live, seconds: Seconds = LONGEST
) -> Response:
    """Stream its changes, beginning with the whole, until it has ended."""
    await off_loop(look, does, caller.user, JobId(id))
    sent = SentFragments()

    async def update() -> PageUpdate:
        seen = await off_loop(look, does, caller.user, JobId(id))
        news = sent.news(seen)
        over = seen.job.terminal and all(one.phase in TERMINAL for one in seen.search.trials)
        return PageUpdate([frame("sweep", news)] if news else [], over)

    return live_page(update, caller, streams, seconds, closest=CLOSEST)


@dataclass(slots=True)
class SentFragments:
    """The data that a visitor has received already."""

    parts: dict[str, bytes] = field(default_factory=dict)
    trials: dict[int, bytes] = field(default_factory=dict)

    def news(self, seen: SweepPageData) -> bytes:
        """Return the new parts as one JSON object; empty if there are none."""
        now = {name: json_bytes(part) for name, part in parts(seen).items()}
        rows = {one.number: json_bytes(row(one, seen.search)) for one in seen.search.trials}
        fresh = {name: part for name, part in now.items() if part != self.parts.get(name)}
        if lines := [line for number, line in rows.items() if line != self.trials.get(number)]:
            fresh["trials"] = b"[%s]" % b",".join(lines)
        self.parts, self.trials = now, rows
        inside = b",".join(b'"%s":%s' % (name.encode(), part) for name, part in fresh.items())
        return b"{%s}" % inside if fresh else b""


def look(does: Services, user: User, id_: JobId) -> SweepPageData:
    """Raises NotFound for a job that is no sweep, is not there, or not for this user."""
    view = does.sweeps.of(user, id_)
    return SweepPageData(job=view.job, user=user, now=does.clock(), search=search_of(view))


def search_of(view: SweepView) -> SweepSnapshot:
    return SweepSnapshot(
        sweep=view.sweep,
        trials=tuple(
            TrialRow(
                number=one.number,
                job=one.job.id,
                params=one.params,
                phase=one.job.phase,
                held_back=one.held_back,
                value=one.value,
                curve=one.curve,
                gpu_seconds=one.gpu_seconds,
                gpus=gpu_number(one.job.held),
                seconds=None if one.job.first_started_at is None else one.seconds,
                why=one.job.verdict or one.job.reason,
            )
            for one in view.trials
        ),
        best=None if view.best is None else view.best.number,
        importance=view.importance,
    )
