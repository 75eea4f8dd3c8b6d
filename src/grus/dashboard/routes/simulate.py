"""The Simulate page: what if? The form's question goes to the very simulator, in a process of its own."""

from collections.abc import AsyncGenerator, Callable
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.dashboard.live_state.job_index import Board, JobFilter, JobState
from grus.dashboard.page_rendering import page
from grus.dashboard.whatif.simulation_form import WhatIfIn, judged, question
from grus.dashboard.whatif.simulation_runs import Play, Plays
from grus.model.errors import NotFound
from grus.model.interfaces import User
from grus.model.nodes import Node
from grus.model.queues import DEFAULT_QUEUE
from grus.model.resources import GPU
from grus.scheduler.queues.policies import GRUS, POLICIES
from grus.server.http.dependencies import Does, Live, Who, WhoExactly, off_loop
from grus.server.http.event_streams import BEAT, HELLO, RECONNECT, LiveResponse, Streams, frame, json_bytes
from grus.server.routes.events import LONGEST, Pace, Seconds

router = APIRouter(include_in_schema=False)

ENDED = frozenset({JobState.SUCCEEDED.value, JobState.FAILED.value, JobState.STOPPED.value})
View = dict[str, object]


@router.get("/simulate")
async def form(request: Request, user: Who, does: Does) -> Response:
    board: Board = request.app.state.board
    queues = await off_loop(does.queues.settings, user)
    nodes = does.pool.nodes(user)
    past = await off_loop(board.look, JobFilter(states=ENDED, limit=0), partial(does.visible.sees, user))
    return page(
        request,
        "simulate.html",
        history=past.total,
        nodes=[(node.id, _words(node)) for node in nodes],
        gpus=sum(len(node.devices) for node in nodes),
        queues=[(queue.name, queue.quota.total / GPU) for queue in queues if queue.name != DEFAULT_QUEUE],
        policies=[name for name in POLICIES if name != GRUS.name],
    )


@router.post("/simulate", status_code=202)
async def begin(asked: WhatIfIn, request: Request, user: Who, does: Does) -> Response:
    """Start it. Errors in the form are reported at once, errors in the jobs by the stream."""
    pool = await off_loop(judged, asked, does, user)
    play = await off_loop(plays(request).begin, user, partial(question, asked, pool, does, user))
    return Response(json_bytes(view(play, "")), 202, media_type="application/json")


@router.post("/simulate/stop", status_code=204)
async def stop(request: Request, user: Who) -> Response:
    await off_loop(plays(request).stop, user)
    return Response(status_code=204)


@router.get("/simulate/answer")
async def answer(request: Request, user: Who) -> Response:
    """Return the result of the user's last simulation."""
    play = plays(request).of(user)
    if play is None or not play.answer:
        raise NotFound("there is no answer; ask first")
    return Response(play.answer, media_type="application/json")


@router.get("/live/simulation")
async def follow(request: Request, caller: WhoExactly, streams: Live, seconds: Seconds = LONGEST) -> Response:
    """Stream the state of the user's simulation, and whether another user's is under way."""
    look = partial(_view, plays(request), caller.user)
    return LiveResponse(_changes(look, Pace(streams, caller, seconds), streams), streams, caller.user.name)


async def _changes(look: Callable[[], View], pace: Pace, streams: Streams) -> AsyncGenerator[bytes, None]:
    yield HELLO
    before: View | None = None
    while not pace.over:
        ticket = streams.ticket()
        if (now := look()) != before:
            yield frame("play", json_bytes(now))
            before = now
            pace.sent()
        elif await pace.silence(ticket):
            yield BEAT
    yield RECONNECT


def _view(plays: Plays, user: User) -> View:
    return view(plays.of(user), plays.other(user))


def view(play: Play | None, other: str) -> View:
    """Return the state for the browser; for another user's simulation only `other`: that there is one."""
    told: View = {"other": other}
    if play is None:
        return {**told, "stage": ""}
    return {
        **told,
        "number": play.number,
        "stage": play.stage.value,
        "under_way": play.under_way,
        "done": play.done,
        "of": play.of,
        "text": play.text,
        "mistakes": [{"field": one.field, "rule": one.rule, "value": one.value} for one in play.mistakes],
    }


def _words(node: Node) -> str:
    kinds = sorted({device.type for device in node.devices})
    return f"{node.id} · {len(node.devices)} × {', '.join(kinds)}"


def plays(request: Request) -> Plays:
    """Return the simulations of this server."""
    found = request.app.state.plays
    assert isinstance(found, Plays)
    return found
