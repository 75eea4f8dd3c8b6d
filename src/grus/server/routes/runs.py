"""Routes of runs: what is kept of jobs that have ended, and in what two of them differ."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from grus.api.wire_types.runs import DiffOut, ResultOut, diff_out
from grus.model.identifiers import JobId, QueueName
from grus.server.http.dependencies import Does, JobPath, Who, answer, answers, off_loop

router = APIRouter(prefix="/v1", tags=["runs"])

Limit = Annotated[int, Query(ge=1, le=1000)]
OtherPath = Annotated[str, Path(max_length=64, description="The run that it is compared with.")]


@router.get("/runs", response_model=list[ResultOut])
async def list_runs(
    user: Who,
    does: Does,
    queue: Annotated[str | None, Query(max_length=253)] = None,
    name: Annotated[str | None, Query(max_length=253)] = None,
    mine: bool = False,
    limit: Limit = 100,
    after: str | None = None,
) -> Response:
    """List the results of jobs, last ended first; `after` is the last job of the page before."""
    of = None if queue is None else QueueName(queue)
    found = await off_loop(
        does.results.listed, user, mine=mine, queue=of, name=name, limit=limit, after=after
    )
    return answers(ResultOut, [ResultOut.from_model(one) for one in found])


@router.get("/runs/{id}", response_model=ResultOut)
async def one_run(id: JobPath, user: Who, does: Does) -> Response:
    return answer(ResultOut.from_model(await off_loop(does.results.of, user, JobId(id))))


@router.get("/runs/{id}/diff/{other}", response_model=DiffOut)
async def diff(id: JobPath, other: OtherPath, user: Who, does: Does) -> Response:
    """Compare two runs: parameters, metrics, code, data, artifacts and profile."""
    first = await off_loop(does.results.of, user, JobId(id))
    second = await off_loop(does.results.of, user, JobId(other))
    return answer(diff_out(first, second))
