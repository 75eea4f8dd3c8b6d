"""The route of reports: what became of GPU-hours, what was wasted and why, and what came of them."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, FastAPI, Query, Request
from starlette.responses import Response

from grus.api.wire_types.report import ReportOut
from grus.api.wire_types.timestamps import parse_time
from grus.controlplane.facade.services import Services
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import User
from grus.model.texts.units import parse_seconds
from grus.reports.build_report import report as make
from grus.reports.data_collection import Scope, gather
from grus.reports.efficiency import Target, parse_target
from grus.reports.static_split import of_past
from grus.reports.wire import MOST_JOBS, report_out
from grus.server.http.dependencies import Does, Who, answer
from grus.simulator.workload.history_trace import encode

router = APIRouter(prefix="/v1", tags=["reports"])

P = ParamSpec("P")
T = TypeVar("T")

USUAL = 7 * 86_400.0
LONGEST = 400 * 86_400.0
"""Seconds that a report may reach back."""

Last = Annotated[
    str | None, Query(max_length=40, description="How far back, such as 7d; of a job its whole life if none.")
]
Until = Annotated[str | None, Query(max_length=40, description="RFC 3339; now if none.")]
OfJob = Annotated[str | None, Query(max_length=64, description="Of this job alone.")]
OfQueue = Annotated[str | None, Query(max_length=253, description="Of this queue's jobs alone.")]
Aim = Annotated[str | None, Query(max_length=120, description="Such as loss<=0.3: when was it met?")]
Most = Annotated[int, Query(ge=0, le=MOST_JOBS, description="Jobs that are told one by one.")]


@router.get("/report", response_model=ReportOut)
async def report(
    request: Request,
    user: Who,
    does: Does,
    last: Last = None,
    until: Until = None,
    job: OfJob = None,
    queue: OfQueue = None,
    target: Aim = None,
    jobs: Most = MOST_JOBS,
) -> Response:
    """Allocated, busy and useful GPU-hours, waste by cause, and efficiency, of what the caller sees."""
    mistakes: list[Mistake] = []
    back = _read(mistakes, "last", last, _span)
    end = _read(mistakes, "until", until, parse_time)
    aim = _read(mistakes, "target", target, parse_target)
    if mistakes:
        raise BadInput(mistakes)
    asked = ReportQuery(back, end, job, queue, aim, jobs)
    return answer(await one_at_a_time(request.app, made, does, user, asked))


@router.get("/history", response_model=dict[str, Any])
async def history(
    request: Request, user: Who, does: Does, last: Last = None, until: Until = None
) -> Response:
    """Ended jobs that the caller sees, with measured work, waiting and costs: what simulations start from."""
    mistakes: list[Mistake] = []
    back = _read(mistakes, "last", last, _span)
    end = _read(mistakes, "until", until, parse_time)
    if mistakes:
        raise BadInput(mistakes)
    found = await one_at_a_time(request.app, ended_jobs, does, user, ReportQuery(back, end))
    return Response(found, media_type="application/json")


class ReportQuery(NamedTuple):
    """A requested report."""

    back: float | None = None
    """Seconds before `until`; a week, or the whole life of a job, if none."""
    until: float | None = None
    job: str | None = None
    queue: str | None = None
    target: Target | None = None
    jobs: int = MOST_JOBS


async def one_at_a_time(app: FastAPI, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a call that reads much, made in a thread. Such calls wait for each other, so that
    other requests do not wait for many of them.
    """
    if not hasattr(app.state, "reporting"):
        app.state.reporting = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(partial(call, *args, **kwargs), limiter=app.state.reporting)


def made(does: Services, user: User, asked: ReportQuery) -> ReportOut:
    """May take a while: for a thread of its own."""
    return report_out(make(gather(does, user, _scope(does, user, asked)), asked.target), asked.jobs)


def ended_jobs(does: Services, user: User, asked: ReportQuery) -> bytes:
    """JSON; may take a while: for a thread of its own."""
    return encode(of_past(gather(does, user, _scope(does, user, asked))))


def _scope(does: Services, user: User, asked: ReportQuery) -> Scope:
    now = does.clock()
    until = now if asked.until is None else min(now, asked.until)
    job = None if asked.job is None else JobId(asked.job)
    since = until - (USUAL if asked.back is None else asked.back)
    if job is not None and asked.back is None:
        since = min(until, does.visible.get(user, job).submitted_at)
    return Scope(
        since=since, until=until, job=job, queue=None if asked.queue is None else QueueName(asked.queue)
    )


def _span(text: str) -> float:
    seconds = parse_seconds(text)
    if not 0 < seconds <= LONGEST:
        raise ValueError("must be longer than nothing and no more than 400 days")
    return seconds


def _read(mistakes: list[Mistake], field: str, text: str | None, reader: Callable[[str], T]) -> T | None:
    try:
        return None if text is None else reader(text)
    except BadInput as error:
        mistakes += error.mistakes
    except (ValueError, OverflowError) as error:
        mistakes.append(Mistake(field, str(error), text or ""))
    return None
