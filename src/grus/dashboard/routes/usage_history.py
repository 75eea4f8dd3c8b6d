"""The History page: what became of the pool's GPU-hours over days and weeks, and whether more would pay.

The page itself is there at once; its figures are gathered afterwards, which takes longer the more happened.
Whether to buy is a simulation of the same time with one more node, which is played beside the server.
"""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from grus.api.wire_types.report import ReportOut
from grus.controlplane.facade.services import Services
from grus.dashboard import static_files
from grus.dashboard.page_rendering import HEADERS, page
from grus.dashboard.routes.simulate import plays
from grus.dashboard.views.usage_history import view
from grus.dashboard.whatif.simulation_form import Question
from grus.dashboard.whatif.simulation_runs import Play
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import QueueName
from grus.model.interfaces import User
from grus.model.texts.plural_words import counted
from grus.model.texts.units import parse_seconds
from grus.reports.build_report import report
from grus.reports.data_collection import Scope, gather
from grus.reports.report_html import page as one_page
from grus.reports.static_split import WORLDS, of_past, one_more
from grus.reports.wire import report_out
from grus.server.http.dependencies import Does, Who, off_loop
from grus.server.http.event_streams import json_bytes
from grus.server.routes.reports import one_at_a_time
from grus.simulator.whatif_scenarios import ScenarioChange
from grus.simulator.workload.history_trace import measured

router = APIRouter(include_in_schema=False)

Last = Literal["1d", "7d", "30d", "90d"]
SPANS: dict[Last, str] = {"1d": "A day", "7d": "A week", "30d": "A month", "90d": "Three months"}
MOST_SIMULATED = 4000
"""Jobs up to which several possible worlds are looked at."""
OfQueue = Annotated[str, Query(max_length=253)]


@router.get("/history")
async def history(
    request: Request, user: Who, does: Does, last: Last = "7d", queue: OfQueue = ""
) -> Response:
    queues = [one.name for one in await off_loop(does.queues.settings, user)]
    return page(request, "history.html", last=last, queue=queue, spans=SPANS, queues=queues)


@router.get("/history.json")
async def figures(
    request: Request, user: Who, does: Does, last: Last = "7d", queue: OfQueue = ""
) -> Response:
    """All that the page shows of a time."""
    found = await one_at_a_time(request.app, _report, does, user, _scope(does, last, queue))
    return _json(view(found))


@router.get("/history/report.html")
async def whole(request: Request, user: Who, does: Does, last: Last = "7d", queue: OfQueue = "") -> Response:
    """The whole report as one file to keep or to pass on; it loads nothing, and is not shown from here."""
    found = await one_at_a_time(request.app, _report, does, user, _scope(does, last, queue))
    text = await off_loop(_file, found)
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="grus-report-{found.until[:10]}.html"',
    }
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")


@router.post("/history/buy")
async def begin(request: Request, user: Who, does: Does, last: Last = "7d", queue: OfQueue = "") -> Response:
    """Begin to find out whether one more node would pay. Raises Conflict while a simulation is under way."""
    scope = _scope(does, last, queue)
    return _json(told(plays(request).begin(user, _question(does, user, scope, SPANS[last]))))


@router.get("/history/buy")
async def answer(request: Request, user: Who) -> Response:
    """Return the progress, and at last the answer."""
    return _json(told(plays(request).of(user)))


def _report(does: Services, user: User, scope: Scope) -> ReportOut:
    return report_out(report(gather(does, user, scope)))


def _file(found: ReportOut) -> str:
    return one_page(found, static_files.read(static_files.PLOTLY).plain.decode())


def _scope(does: Services, last: Last, queue: str) -> Scope:
    now = does.clock()
    return Scope(since=now - parse_seconds(last), until=now, queue=QueueName(queue) if queue else None)


def _question(does: Services, user: User, scope: Scope, words: str) -> Callable[[], Question]:
    def ask() -> Question:
        past = of_past(gather(does, user, scope))
        if not past.jobs:
            rule = "has no job that was submitted and ended in it, and so nothing to simulate"
            raise BadInput([Mistake("history", rule, words.lower())])
        more = one_more(past.nodes)
        return Question(
            title=f"{words} simulated with {more} more",
            present=past.scenario(),
            measured=measured(past),
            change=ScenarioChange(add_nodes=more),
            seeds=WORLDS if len(past.jobs) <= MOST_SIMULATED else 1,
            notes=(f"Left out, since without an end: {counted(past.left_out, 'job')}.",)
            if past.left_out
            else (),
        )

    return ask


def told(play: Play | None) -> dict[str, object]:
    """A simulation as it stands, for the page."""
    if play is None:
        return {"stage": "", "done": 0, "of": 0, "text": "", "answer": None}
    mistakes = [f"{one.field} {one.rule}" for one in play.mistakes]
    return {
        "stage": play.stage.value,
        "under_way": play.under_way,
        "done": play.done,
        "of": play.of,
        "text": "; ".join([play.text, *mistakes] if play.text else mistakes),
        "answer": _answered(play.answer),
    }


def _answered(text: bytes) -> dict[str, object] | None:
    """Return title, sentences and notes of the whole answer, which the Simulate page shows."""
    if not text:
        return None
    whole: dict[str, object] = msgspec.json.decode(text)
    return {name: whole[name] for name in ("title", "sentences", "notes")}


def _json(value: dict[str, object]) -> Response:
    return Response(json_bytes(value), media_type="application/json")
