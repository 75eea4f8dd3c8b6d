"""Routes of jobs that belong together: submit them at once, look at the whole, try again from one."""

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from grus.api.wire_types.job import JobOut, job_out
from grus.api.wire_types.workflow import GraphIn, GraphOut, GraphStageOut
from grus.controlplane.admission.workflow_graph import Graph
from grus.model.identifiers import JobId
from grus.server.http.dependencies import Does, JobPath, Who, answer, answers, off_loop
from grus.server.routes.jobs import LONGEST_KEY, seen

router = APIRouter(prefix="/v1", tags=["jobs"])

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=LONGEST_KEY)]


@router.post("/graphs", status_code=201, response_model=list[JobOut])
async def submit_graph(given: GraphIn, user: Who, does: Does, key: Key = None) -> Response:
    """Store jobs that name each other: all of them, or none. One set per key and user."""
    stored = await off_loop(does.workflows.submit, user, given.jobs, key=key, fresh=given.fresh)
    return answers(JobOut, [job_out(job) for job in stored], 201)


@router.get("/graphs/{id}", response_model=GraphOut)
async def graph(id: JobPath, user: Who, does: Does) -> Response:
    """The jobs that were submitted together with this one, and who comes after whom."""
    found = await off_loop(does.graphs.of, user, JobId(id))
    return answer(_out(found, does))


@router.post("/jobs/{id}/retry", status_code=201, response_model=list[JobOut])
async def retry(id: JobPath, user: Who, does: Does, key: Key = None) -> Response:
    """Submit again a job that did not succeed, and those that come after it."""
    stored = await off_loop(does.workflows.retry, user, JobId(id), key=key)
    return answers(JobOut, [job_out(job) for job in stored], 201)


def _out(found: Graph, does: Does) -> GraphOut:
    stages = [GraphStageOut.from_model(stage, job=seen(stage.job, does)) for stage in found.stages]
    return GraphOut.from_model(found, stages=stages)
