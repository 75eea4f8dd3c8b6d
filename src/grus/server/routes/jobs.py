"""Routes of jobs: submit, look, act, and the log."""

from asyncio import wrap_future
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.responses import Response

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import mistakes_of
from grus.api.wire_types.curves import CurvesOut
from grus.api.wire_types.job import EventOut, JobOut, PlanOut, WhyOut, WorkerOut, job_out
from grus.api.wire_types.pool import ScaleIn, to_size
from grus.controlplane.facade.services import Services
from grus.controlplane.workers.worker_launch_spec import members
from grus.model.activity_labels import of_job
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import Job, Phase
from grus.server.http.dependencies import After, Does, JobPath, Who, answer, answers, caller_of, off_loop

router = APIRouter(prefix="/v1", tags=["jobs"])

LONGEST_KEY = 200
SUBMIT = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": JobIn.model_json_schema()}}},
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "One job per key and user: a repeated submit returns the first one's job.",
            "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
        },
        {"name": "plan", "in": "query", "schema": {"type": "boolean", "default": False}},
    ],
}
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.post(
    "/jobs", status_code=201, response_model=JobOut, responses={200: {"model": PlanOut}}, openapi_extra=SUBMIT
)
async def submit(request: Request) -> Response:
    """Store a job durably (201), or with `plan=true` only say what would become of it (200).

    The one route that reads its request by hand: it is the hot one, and declared parameters would cost more
    than all the rest of it.
    """
    user, does = caller_of(request).user, request.app.state.services
    job = _job_in(await request.body())
    spec, given = to_spec(job), job.launch_given
    if request.scope["query_string"] and _wants_plan(request.query_params):
        return answer(PlanOut.from_model(await off_loop(does.actions.plan, user, spec, launch_given=given)))
    # On the event loop: it only checks and queues; the store then writes many of them at once.
    stored = await wrap_future(does.actions.submit(user, spec, key=_key(request), launch_given=given))
    request.app.state.figures.submits.inc()
    return answer(job_out(stored), 201)


@router.get("/jobs", response_model=list[JobOut])
async def list_jobs(
    user: Who,
    does: Does,
    phases: Annotated[list[Phase] | None, Query(alias="phase")] = None,
    queue: str | None = None,
    mine: bool = False,
    limit: Limit = 100,
    after: str | None = None,
) -> Response:
    """Jobs, newest first; `after` is the id of the last one of the page before."""
    name = None if queue is None else QueueName(queue)
    found = await off_loop(
        does.jobs.listed, user, phases=phases, queue=name, mine=mine, limit=limit, after=after
    )
    tags = does.pool.tags()
    return answers(JobOut, [job_out(job, does.jobs.foreseen(job), tags.get(of_job(job.id))) for job in found])


@router.get("/jobs/{id}", response_model=JobOut)
async def one_job(id: JobPath, user: Who, does: Does) -> Response:
    return answer(seen(await off_loop(does.visible.get, user, JobId(id)), does))


@router.post("/jobs/{id}/stop", response_model=JobOut)
async def stop(id: JobPath, user: Who, does: Does) -> Response:
    """End it for good."""
    return answer(job_out(await off_loop(does.actions.stop, user, JobId(id))))


@router.post("/jobs/{id}/pause", response_model=JobOut)
async def pause(id: JobPath, user: Who, does: Does) -> Response:
    """Let it save itself and give its GPUs back until it is resumed."""
    return answer(job_out(await off_loop(does.actions.pause, user, JobId(id))))


@router.post("/jobs/{id}/resume", response_model=JobOut)
async def resume(id: JobPath, user: Who, does: Does) -> Response:
    return answer(job_out(await off_loop(does.actions.resume, user, JobId(id))))


@router.post("/jobs/{id}/scale", response_model=JobOut)
async def scale(id: JobPath, size: ScaleIn, user: Who, does: Does) -> Response:
    """Pin or change the size of an elastic job, or with `auto` go back to what was submitted."""
    return answer(job_out(await off_loop(does.actions.scale, user, JobId(id), to_size(size))))


@router.get("/jobs/{id}/why", response_model=WhyOut)
async def why(id: JobPath, user: Who, does: Does) -> Response:
    """Explain why a job waits, which jobs hold the GPUs that it waits for, and what would start it now."""
    found = await off_loop(does.jobs.why, user, JobId(id))
    job = await off_loop(does.visible.get, user, JobId(id))
    eta = does.jobs.foreseen(job)
    return answer(WhyOut.from_model(found, job=job.id, phase=job.phase, eta=eta))


@router.get("/jobs/{id}/events", response_model=list[EventOut])
async def events(id: JobPath, user: Who, does: Does, after: After = 0, limit: Limit = 1000) -> Response:
    found = await off_loop(does.jobs.events, user, after=after, job=JobId(id), limit=limit)
    return answers(EventOut, [EventOut.from_model(event) for event in found])


@router.get("/jobs/{id}/curves", response_model=CurvesOut)
async def curves(id: JobPath, user: Who, does: Does) -> Response:
    """Return the job's reports over time: each metric, and its throughput."""
    return answer(CurvesOut.from_model(await off_loop(does.outputs.curves, user, JobId(id)), job=id))


@router.get("/jobs/{id}/workers", response_model=list[WorkerOut])
async def workers(id: JobPath, user: Who, does: Does) -> Response:
    found = await off_loop(does.outputs.workers, user, JobId(id))
    team = members(await off_loop(does.visible.get, user, JobId(id)))
    numbers = {member.id: number for number, member in enumerate(team)}
    return answers(WorkerOut, [WorkerOut.from_model(one, number=numbers.get(one.id)) for one in found])


@router.get("/jobs/{id}/log", response_class=Response)
async def log(
    id: JobPath,
    user: Who,
    does: Does,
    worker: Annotated[int | None, Query(ge=0)] = None,
    offset: int = 0,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 65536,
    attempt: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Return raw bytes of a worker's log; the header Grus-Next-Offset is the offset of the next request."""
    data, following = await off_loop(does.outputs.log, user, JobId(id), worker, offset, limit, attempt)
    return Response(
        data, headers={"Grus-Next-Offset": str(following)}, media_type="text/plain; charset=utf-8"
    )


def _job_in(body: bytes) -> JobIn:
    try:
        return JobIn.model_validate_json(body)
    except ValidationError as error:
        raise BadInput(mistakes_of(error.errors(include_url=False))) from None


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        raise BadInput([Mistake("Idempotency-Key", f"must have 1 to {LONGEST_KEY} characters", key[:80])])
    return key


def _wants_plan(query: QueryParams) -> bool:
    mistakes = [Mistake(name, "is not a parameter here; there is plan") for name in query if name != "plan"]
    plan = query.get("plan", "false").lower()
    if plan not in ("true", "false"):
        mistakes.append(Mistake("plan", "must be true or false", plan[:80]))
    if mistakes:
        raise BadInput(mistakes)
    return plan == "true"


def seen(job: Job, does: Services) -> JobOut:
    """Return a job as it is sent, with its forecast and recognized activity."""
    return job_out(job, does.jobs.foreseen(job), does.pool.tags().get(of_job(job.id)))
