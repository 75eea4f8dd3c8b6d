"""Server-sent events: what happens, logs as they are written, use as it is measured.

Each stream reads with its caller's rights and checks as often as a heartbeat that they still hold. How
streams wake and are bounded is in `streams`.
"""

import asyncio
import codecs
import math
from collections.abc import AsyncGenerator
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from grus.api.wire_types.job import EventOut, UsageOut
from grus.controlplane.facade.services import Services
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import JobId
from grus.server.http.auth_middleware import Caller
from grus.server.http.dependencies import (
    MOST_SEQ,
    After,
    Does,
    JobPath,
    Live,
    WhoExactly,
    answers,
    encoded,
    encoded_list,
    off_loop,
)
from grus.server.http.event_streams import (
    BEAT,
    END,
    HELLO,
    RECONNECT,
    LiveResponse,
    Streams,
    frame,
    json_bytes,
    waited,
)

router = APIRouter(prefix="/v1", tags=["live"])

PAGE = 500
"""Events read at once."""
LOG_PIECE = 65536
"""Bytes of a log in one event."""
LOG_EVERY = 0.2
"""Seconds between two looks at a log file: no event reports that a process writes."""
USAGE_EVERY = 1.0
LONGEST = 3600.0
"""Seconds after which a stream asks its client to reconnect."""

Seconds = Annotated[float, Query(gt=0, le=LONGEST, description="End by itself after this time.")]
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=40)]


@router.get("/events", response_model=list[EventOut], responses={200: {"content": {"text/event-stream": {}}}})
async def events(
    request: Request,
    caller: WhoExactly,
    does: Does,
    streams: Live,
    after: After | None = None,
    job: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    seconds: Seconds = LONGEST,
    last: LastId = None,
) -> Response:
    """A list; or, for a client that accepts text/event-stream, a stream from `Last-Event-ID` (else from now).

    The stream of one `job` ends when the job has ended.
    """
    name = None if job is None else JobId(job)
    if "text/event-stream" not in request.headers.get("accept", ""):
        found = await off_loop(does.jobs.events, caller.user, after=after or 0, job=name, limit=limit)
        return answers(EventOut, [EventOut.from_model(event) for event in found])
    if name is not None:
        # A job that is not there is a 404, not an empty stream.
        await off_loop(does.visible.get, caller.user, name)
    begin = _number(last) if last is not None else after
    if begin is None:
        begin = does.jobs.last_event
    return LiveResponse(_events(does, caller, streams, begin, name, seconds), streams, caller.user.name)


@router.get("/jobs/{id}/log/stream", status_code=200, response_class=LiveResponse)
async def follow_log(
    id: JobPath,
    caller: WhoExactly,
    does: Does,
    streams: Live,
    worker: Annotated[int | None, Query(ge=0)] = None,
    offset: int = 0,
    attempt: Annotated[int | None, Query(ge=1)] = None,
    last: LastId = None,
) -> Response:
    """The log of a worker as it grows, until the job (or the attempt that is named) has ended.

    An event's id names the attempt and the offset after it.
    """
    await off_loop(does.visible.get, caller.user, JobId(id))
    if attempt is not None:  # one that is not there is a 404, not an empty stream
        await off_loop(does.outputs.log, caller.user, JobId(id), worker, 0, 1, attempt)
    begin = _mark(last) if last is not None else _Mark(attempt or 0, offset)
    source = _log(does, caller, streams, JobId(id), worker, begin, attempt)
    return LiveResponse(source, streams, caller.user.name)


@router.get("/usage/stream", status_code=200, response_class=LiveResponse)
async def follow_usage(caller: WhoExactly, does: Does, streams: Live) -> Response:
    """Stream the running workers' use of resources, once a second."""
    await off_loop(does.pool.usage, caller.user)
    return LiveResponse(_usage(does, caller, streams), streams, caller.user.name)


class Pace:
    """Timing of a stream: its end, its heartbeats, and its looks."""

    def __init__(self, streams: Streams, caller: Caller, seconds: float) -> None:
        self._streams = streams
        self._caller = caller
        self._clock = asyncio.get_running_loop().time
        self._seconds = seconds
        self._end = math.inf
        """Its time counts from the first look, so that a busy server gives every stream one."""
        self._beat = self._check = self._clock() + streams.heartbeat

    @property
    def over(self) -> bool:
        if self._end == math.inf:
            self._end = self._clock() + self._seconds
            return self._streams.closing
        return self._streams.closing or self._clock() >= self._end

    def sent(self) -> None:
        """Postpone the heartbeat after a message. Raises when the token was revoked."""
        now = self._clock()
        self._beat = now + self._streams.heartbeat
        if now >= self._check:  # not only in silence: a stream may always have something to say
            self._check = now + self._streams.heartbeat
            if self._caller.verify() != self._caller.user:
                self._end = now  # a user whose rights changed reconnects

    async def silence(self, ticket: asyncio.Event, most: float = LONGEST) -> bool:
        """Wait for a change, `most` seconds at most; whether it is time for a heartbeat."""
        now = self._clock()
        await waited(ticket, max(0.0, min(most, self._beat - now, self._end - now)))
        if self._clock() < self._beat:
            return False
        self.sent()
        return True


async def _events(
    does: Services, caller: Caller, streams: Streams, after: int, job: JobId | None, seconds: float
) -> AsyncGenerator[bytes, None]:
    pace = Pace(streams, caller, seconds)
    yield HELLO
    while not pace.over:
        ticket = streams.ticket()
        # First whether it has ended, then what happened: so the last event is never cut off.
        ended = job is not None and (await off_loop(does.visible.get, caller.user, job)).terminal
        found = await off_loop(does.jobs.events, caller.user, after=after, job=job, limit=PAGE)
        for event in found:
            yield frame("event", encoded(EventOut.from_model(event)), event.seq)
            after = event.seq
            pace.sent()
        if ended and len(found) < PAGE:
            yield END
            return
        if not found and await pace.silence(ticket):
            yield BEAT
    yield RECONNECT


async def _log(
    does: Services,
    caller: Caller,
    streams: Streams,
    job: JobId,
    worker: int | None,
    at: "_Mark",
    only: int | None,
) -> AsyncGenerator[bytes, None]:
    pace = Pace(streams, caller, LONGEST)
    text = codecs.getincrementaldecoder("utf-8")("replace")
    yield HELLO
    while not pace.over:
        now = await off_loop(does.visible.get, caller.user, job)
        at = _Mark(at.attempt or now.attempt, at.offset)
        data, following = b"", at.offset
        if at.attempt:
            asked = (caller.user, job, worker, at.offset, LOG_PIECE, at.attempt)
            data, following = await off_loop(does.outputs.log, *asked)
        if data:
            piece = text.decode(data)
            known = following - len(text.getstate()[0])  # half a character is sent with the rest of it
            told = {"text": piece, "attempt": at.attempt, "next": known}
            if at.offset >= 0 and (dropped := following - len(data) - at.offset):
                told["dropped"] = dropped
            at = _Mark(at.attempt, following)
            yield frame("log", json_bytes(told), f"{at.attempt}.{known}")
            pace.sent()
        elif only is None and at.attempt < now.attempt:
            at = _Mark(at.attempt + 1, 0)  # it has a log of its own, from its beginning
            text.reset()
        elif now.terminal or (only is not None and only < now.attempt):
            yield END
            return
        elif await pace.silence(streams.closed, LOG_EVERY):
            yield BEAT
    yield RECONNECT


async def _usage(does: Services, caller: Caller, streams: Streams) -> AsyncGenerator[bytes, None]:
    pace = Pace(streams, caller, LONGEST)
    yield HELLO
    while not pace.over:
        found = await off_loop(does.pool.usage, caller.user)
        yield frame("usage", encoded_list(UsageOut, [UsageOut.from_model(one) for one in found]))
        await pace.silence(streams.closed, USAGE_EVERY)
    yield RECONNECT


class _Mark(NamedTuple):
    """Position in a log: the attempt (0 for the present one), and the offset of the next byte."""

    attempt: int
    offset: int


def _mark(last: str) -> _Mark:
    attempt, _, offset = last.partition(".")
    return _Mark(_number(attempt), _number(offset))


def _number(last: str) -> int:
    if not last.isdecimal() or int(last) > MOST_SEQ:
        raise BadInput([Mistake("Last-Event-ID", "must be one that the stream gave before", last)])
    return int(last)
