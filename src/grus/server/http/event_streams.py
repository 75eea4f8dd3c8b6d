"""Live streams: permission to open one, wake-up, and sending.

A stream holds no queue. A commit only wakes it (at most every `EVERY` seconds); it then reads from the event
log the events that it has not sent yet, with its caller's rights. So a client that reads slowly costs only
its own place, the store's thread never waits, and nothing can overflow: a client that is cut off continues
from its last id.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from grus.model.errors import GrusError
from grus.model.identifiers import UserName
from grus.server.http.errors import Refusal
from grus.server.http.uvicorn_protocol import cut

log = logging.getLogger(__name__)

EVERY = 0.02
"""Seconds: wake-ups closer together are one."""
HEARTBEAT = 15.0
"""Seconds of silence after which a stream says that it is there."""
SLOWEST_SEND = 20.0
"""Seconds that a client may take to make room for the next piece, before it is cut."""

HELLO = b": grus\nretry: 1000\n\n"
BEAT = b": heartbeat\n\n"
END = b"event: end\ndata: {}\n\n"
RECONNECT = b"event: reconnect\ndata: {}\n\n"
"""The stream stops here, but its subject continues: reconnect with the last id."""


def frame(kind: str, data: bytes, id: int | str = "") -> bytes:
    """One event of a stream; `data` is JSON on one line."""
    number = b"" if id == "" else f"id: {id}\n".encode()
    return b"%sevent: %s\ndata: %s\n\n" % (number, kind.encode(), data)


class Streams:
    """All live streams of a server. Used from the event loop, but for `poke`.

    Each person may have some: many tokens of one would else leave nothing for the others.
    """

    def __init__(self, *, most: int = 256, most_each: int = 64, heartbeat: float = HEARTBEAT) -> None:
        self.heartbeat = heartbeat
        self.closed = asyncio.Event()
        """Set when the server stops."""
        self._most = most
        self._most_each = most_each
        self._open: Counter[UserName] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poked = False
        self._changed = asyncio.Event()

    @property
    def closing(self) -> bool:
        return self.closed.is_set()

    @property
    def count(self) -> int:
        return self._open.total()

    def attach(self) -> None:
        """Start to receive pokes, in the running event loop."""
        self._loop = asyncio.get_running_loop()

    def poke(self) -> None:
        """Something was committed. From any thread; never blocks."""
        if self._loop is not None and not self._poked and not self._loop.is_closed():
            self._poked = True
            self._loop.call_soon_threadsafe(self._loop.call_later, EVERY, self._wake)

    def ticket(self) -> asyncio.Event:
        """Set at the next change. Take it before reading: a change between reading and waiting counts."""
        return self._changed

    def close(self) -> None:
        """Ask every stream to end soon; they ask their clients to reconnect."""
        self.closed.set()
        self._wake()

    @contextmanager
    def place(self, person: UserName) -> Iterator[None]:
        """A place for one more stream of theirs, for as long as it lives."""
        if self.count >= self._most or self._open[person] >= self._most_each:
            message = f"There are too many live streams ({self._open[person]} of yours). Close some."
            raise Refusal(429, "too_many_streams", message)
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]

    def _wake(self) -> None:
        self._poked = False
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def waited(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event came within that time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


class LiveResponse(StreamingResponse):
    """A stream of events that is cut when its client does not keep up."""

    media_type = "text/event-stream"

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        streams: Streams,
        person: UserName,
        slowest: float = SLOWEST_SEND,
    ) -> None:
        super().__init__(pieces, headers={"X-Accel-Buffering": "no"})
        self._pieces = pieces
        self._streams = streams
        self._person = person
        self._slowest = slowest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(self._person):
            self._scope = scope
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(_with_errors(self._pieces)) as pieces:
            async for piece in pieces:
                if not await self._sent(send, piece):
                    await cut(self._scope)  # without the end of the body: it is not whole
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _sent(self, send: Send, piece: bytes) -> bool:
        try:
            async with asyncio.timeout(self._slowest):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            log.warning("a live stream was cut: its client did not read for %g s", self._slowest)
            return False
        return True


async def _with_errors(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the pieces; an error on the way (the token was revoked, the job is gone) is sent as the last
    one.
    """
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except GrusError as error:
            yield frame("error", json_bytes({"code": error.code, "message": str(error)}))


def json_bytes(value: object) -> bytes:
    return msgspec.json.encode(value)
