"""The Jobs page: every job that one may see, filtered, sorted and live, from the board in memory."""

from collections.abc import AsyncGenerator, Callable
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.dashboard.live_state.job_index import DOWN_AT_FIRST, Board, JobFilter, JobState
from grus.dashboard.page_rendering import page
from grus.dashboard.views.job_list import MOST_ROWS, PAGE, ClientRows, difference, shown_of, wanted_of, whole
from grus.model.interfaces import User
from grus.server.http.dependencies import Does, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import BEAT, HELLO, RECONNECT, LiveResponse, Streams, frame, json_bytes
from grus.server.routes.events import LONGEST, Pace, Seconds

router = APIRouter(include_in_schema=False)

EVERY = 0.5
"""Seconds between two looks for one stream, however much happens."""
COLUMNS = (
    ("state", "State", ""),
    ("name", "Name", ""),
    ("user", "User", ""),
    ("queue", "Queue", ""),
    ("", "Type", "spare"),
    ("gpus", "GPUs", "num"),
    ("priority", "Priority", "num spare"),
    ("submitted", "Submitted", "num"),
    ("started", "Time", "num"),
    ("", "Why", ""),
)
"""Sort key (empty if the column cannot be sorted), heading, class."""


@router.get("/jobs")
async def jobs(request: Request, user: Who, does: Does) -> Response:
    board, wanted = _board(request), wanted_of(request.query_params)
    shown = await off_loop(_look, board, does, user, wanted)
    return page(
        request,
        "jobs.html",
        rows=list(shown.rows.values()),
        figures=shown.figures,
        wanted=wanted,
        states=[state.value for state in JobState],
        columns=COLUMNS,
        falling=DOWN_AT_FIRST,
        first=PAGE,
        most=MOST_ROWS,
    )


@router.get("/jobs.json")
async def matching(request: Request, user: Who, does: Does) -> Response:
    """The ids of all that match, as far as a list goes: to act on them without scrolling through them."""
    wanted = whole(wanted_of(request.query_params))
    shown = await off_loop(_look, _board(request), does, user, wanted)
    told = {"ids": shown.order, "total": shown.figures["total"]}
    return Response(json_bytes(told), media_type="application/json")


@router.get("/live/jobs")
async def follow(
    request: Request, caller: WhoExactly, does: Does, streams: Live, seconds: Seconds = LONGEST
) -> Response:
    """The list as it changes; first the whole of it."""
    board, wanted = _board(request), wanted_of(request.query_params)
    look = partial(_look, board, does, caller.user)
    pieces = _changes(board, look, wanted, Pace(streams, caller, seconds), streams)
    return LiveResponse(pieces, streams, caller.user.name)


async def _changes(
    board: Board, look: Callable[[JobFilter], ClientRows], wanted: JobFilter, pace: Pace, streams: Streams
) -> AsyncGenerator[bytes, None]:
    yield HELLO
    before, revision = ClientRows(), -1
    while not pace.over:
        ticket = streams.ticket()
        if board.revision == revision:
            if await pace.silence(ticket):
                revision = -1  # what one may see can change without a change of a job
                yield BEAT
            continue
        revision = board.revision
        now = await off_loop(look, wanted)
        if change := difference(before, now):
            yield frame("jobs", json_bytes(change))
            pace.sent()
        before = now
        await pace.silence(streams.closed, EVERY)
    yield RECONNECT


def _look(board: Board, does: Services, user: User, wanted: JobFilter) -> ClientRows:
    full = board.full  # first: what is read afterwards has at least all of that
    oldest = does.clock() - does.settings.job_retention  # before that, ended jobs are about to be deleted
    found = board.look(wanted, partial(does.visible.sees, user), since=oldest)
    return shown_of(found, full, does.jobs.starts)


def _board(request: Request) -> Board:
    found = request.app.state.board
    assert isinstance(found, Board)
    return found
