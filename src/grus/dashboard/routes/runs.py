"""The pages of runs: what is kept of jobs that have ended, as a list, one by one, and two side by side."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from grus.dashboard.page_rendering import page
from grus.dashboard.views.runs import artefact_rows, beside, facts, line, metric_rows
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName
from grus.server.http.dependencies import Does, JobPath, Who, off_loop

router = APIRouter(include_in_schema=False)

PAGE = 100
LIKE_IT = 20
"""Runs of the same name that one is compared with at a click."""

OfName = Annotated[str, Query(max_length=200)]
OfQueue = Annotated[str, Query(max_length=253)]
After = Annotated[str, Query(max_length=64)]


@router.get("/runs")
async def runs(
    request: Request,
    user: Who,
    does: Does,
    name: OfName = "",
    queue: OfQueue = "",
    mine: bool = False,
    after: After = "",
) -> Response:
    """The list, last ended first; all of what it asks for is in the address."""
    found = await off_loop(
        does.results.listed,
        user,
        mine=mine,
        queue=QueueName(queue) if queue else None,
        name=name or None,
        limit=PAGE + 1,
        after=JobId(after) if after else None,
    )
    wanted = {"name": name, "queue": queue, "mine": mine}
    more = ""
    if len(found) > PAGE:
        asked = {key: value for key, value in wanted.items() if value}
        more = "/runs?" + urlencode({**asked, "after": found[PAGE - 1].job})
    queues = [one.name for one in await off_loop(does.queues.settings, user)]
    rows = [line(one) for one in found[:PAGE]]
    return page(request, "runs.html", rows=rows, wanted=wanted, after=after, more=more, queues=queues)


@router.get("/runs/compare")
async def compare(
    request: Request, user: Who, does: Does, run: Annotated[list[str] | None, Query(max_length=9)] = None
) -> Response:
    """Two runs side by side: `?run=A&run=B`."""
    names = run or []
    if len(names) != 2:
        raise BadInput([Mistake("run", "must be named twice: two runs are compared", str(len(names)))])
    one, other = [await off_loop(does.results.of, user, JobId(name)) for name in names]
    return page(request, "runs_compare.html", one=line(one), other=line(other), parts=beside(one, other))


@router.get("/runs/{id}")
async def one_run(id: JobPath, request: Request, user: Who, does: Does) -> Response:
    run = await off_loop(does.results.of, user, JobId(id))
    like_it = await off_loop(does.results.listed, user, name=run.name, limit=LIKE_IT + 1)
    return page(
        request,
        "run.html",
        run=line(run),
        facts=facts(run),
        metrics=metric_rows(run),
        inputs=artefact_rows(run.inputs),
        outputs=artefact_rows(run.outputs),
        sweep=None if run.trial is None else run.trial.sweep,
        others=[line(one) for one in like_it if one.job != run.job][:LIKE_IT],
    )
