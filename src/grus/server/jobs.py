"""Routes of jobs: submit, look, act, and the log."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from grus.api.job_in import JobIn
from grus.api.job_spec import to_spec
from grus.api.wire import (
    EventOut,
    JobOut,
    PlanOut,
    ScaleIn,
    WhyOut,
    WorkerOut,
    event_out,
    job_out,
    plan_out,
    to_size,
    why_out,
    worker_out,
)
from grus.controlplane.launching import members
from grus.controlplane.planning import Plan
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import Phase
from grus.server.edge import Counts, Does, JobPath, Who, answer, answers, off_loop

router = APIRouter(tags=["jobs"])

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="One job per key and user."),
]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.post("/jobs", status_code=201, response_model=JobOut)
async def submit(
    job: JobIn, user: Who, does: Does, counts: Counts, key: Key = None, plan: bool = False
) -> Response:
    """Store a job durably (201), or with `plan=true` only say what would become of it."""
    spec, given = to_spec(job), job.launch is not None
    if plan:
        return answer(_plan_out(await off_loop(does.plan, user, spec, launch_given=given)))
    # Called on the event loop: it only checks and queues, and the store writes many of them at once.
    stored = await asyncio.wrap_future(does.submit(user, spec, key=key, launch_given=given))
    counts.submits.inc()
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
    found = await off_loop(does.jobs, user, phases=phases, queue=name, mine=mine, limit=limit, after=after)
    return answers(JobOut, [job_out(job) for job in found])


@router.get("/jobs/{id}", response_model=JobOut)
async def one_job(id: JobPath, user: Who, does: Does) -> Response:
    return answer(job_out(await off_loop(does.job, user, JobId(id))))


@router.post("/jobs/{id}/stop", response_model=JobOut)
async def stop(id: JobPath, user: Who, does: Does) -> Response:
    """End it for good."""
    return answer(job_out(await off_loop(does.stop, user, JobId(id))))


@router.post("/jobs/{id}/pause", response_model=JobOut)
async def pause(id: JobPath, user: Who, does: Does) -> Response:
    """Let it save itself and give its GPUs back until it is resumed."""
    return answer(job_out(await off_loop(does.pause, user, JobId(id))))


@router.post("/jobs/{id}/resume", response_model=JobOut)
async def resume(id: JobPath, user: Who, does: Does) -> Response:
    return answer(job_out(await off_loop(does.resume, user, JobId(id))))


@router.post("/jobs/{id}/scale", response_model=JobOut)
async def scale(id: JobPath, size: ScaleIn, user: Who, does: Does) -> Response:
    """Pin or change the size of an elastic job, or with `auto` go back to what was submitted."""
    return answer(job_out(await off_loop(does.scale, user, JobId(id), to_size(size))))


@router.get("/jobs/{id}/why", response_model=WhyOut)
async def why(id: JobPath, user: Who, does: Does) -> Response:
    """Why it waits, who holds what it waits for, and what would start it now."""
    found = await off_loop(does.why, user, JobId(id))
    job = await off_loop(does.job, user, JobId(id))
    return answer(
        why_out(job, code=found.code, sentence=found.sentence, holders=found.holders, change=found.change)
    )


@router.get("/jobs/{id}/events", response_model=list[EventOut])
async def events(
    id: JobPath, user: Who, does: Does, after: Annotated[int, Query(ge=0)] = 0, limit: Limit = 1000
) -> Response:
    found = await off_loop(does.events, user, after=after, job=JobId(id), limit=limit)
    return answers(EventOut, [event_out(event) for event in found])


@router.get("/jobs/{id}/workers", response_model=list[WorkerOut])
async def workers(id: JobPath, user: Who, does: Does) -> Response:
    found = await off_loop(does.workers, user, JobId(id))
    team = members(await off_loop(does.job, user, JobId(id)))
    numbers = {member.id: number for number, member in enumerate(team)}
    return answers(WorkerOut, [worker_out(one, numbers.get(one.id)) for one in found])


@router.get("/jobs/{id}/log", response_class=Response)
async def log(
    id: JobPath,
    user: Who,
    does: Does,
    worker: Annotated[int | None, Query(ge=0)] = None,
    offset: int = 0,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 65536,
) -> Response:
    """Bytes of a worker's log as they are; the header Grus-Next-Offset says where to go on."""
    data, following = await off_loop(does.log, user, JobId(id), worker, offset, limit)
    return Response(
        data, headers={"Grus-Next-Offset": str(following)}, media_type="text/plain; charset=utf-8"
    )


def _plan_out(plan: Plan) -> PlanOut:
    return plan_out(
        fits=plan.fits,
        starts=plan.starts,
        sentence=plan.sentence,
        launch=plan.launch,
        seats=plan.seats,
        affected=plan.affected,
    )
