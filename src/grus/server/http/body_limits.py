"""Bodies are read whole before the app sees them: never above a size, never slower than a time.

What is sent to a served model may be larger than the rest, for a few requests at a time. It stands behind the
gate, so that only callers with a token can make the server wait for them.
"""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grus.server.http.errors import Refusal

LARGEST_BODY = 1024 * 1024
"""Bytes."""
SLOWEST_BODY = 10.0
"""Seconds from the headers to the last byte."""
LARGEST_INPUTS = 16 * 1024 * 1024
"""Bytes of a request to a model."""
MOST_LARGE = 16
"""Bodies above the usual size that are in memory at a time."""


class _ClientGone(Exception):
    """The client went away in the middle of its body."""


class Bodies:
    """Hands each request on with its whole body, or answers 413 or 408 and closes the connection."""

    def __init__(self, app: ASGIApp, *, largest: int = LARGEST_BODY, slowest: float = SLOWEST_BODY) -> None:
        self._app = app
        self._largest = largest
        self._slowest = slowest
        self._large = 0
        """Bodies above the usual size that are being read or worked on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(headers := Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        large = _declared(headers) > self._largest and _for_model(scope)
        self._large += large
        try:
            await self._handed_on(scope, headers, receive, send, LARGEST_INPUTS if large else self._largest)
        finally:
            self._large -= large

    async def _handed_on(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, largest: int
    ) -> None:
        try:
            if self._large > MOST_LARGE:
                raise Refusal(503, "busy", "Too many large requests are under way.", retry_after=1.0)
            body = await self._read(headers, receive, largest)
        except _ClientGone:
            return
        except Refusal as refusal:
            response = refusal.response()
            # The rest of the body must not be read as the next request.
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive, largest: int) -> bytes:
        if _declared(headers) > largest:
            raise _too_large(largest)
        try:
            async with asyncio.timeout(self._slowest):
                return await _collect(receive, largest)
        except TimeoutError:
            raise Refusal(408, "too_slow", f"The body did not arrive within {self._slowest:g} s.") from None


async def _collect(receive: Receive, largest: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > largest:
            raise _too_large(largest)
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_large(largest: int) -> Refusal:
    return Refusal(413, "too_large", f"A body may have at most {largest} bytes.")


def _declared(headers: Headers) -> int:
    """Bytes that the headers announce; 0 if they do not."""
    said = headers.get("content-length", "")
    return int(said) if said.isdigit() else 0


def _for_model(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.startswith("/v1/jobs/") and path.endswith("/predict")


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _replay(body: bytes, receive: Receive) -> Receive:
    """`receive` that gives the whole body at once, then what comes after it."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
