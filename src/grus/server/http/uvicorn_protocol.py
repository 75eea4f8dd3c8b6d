"""HTTP/1.1 of uvicorn with two additions: a time limit for slow headers, and a way to cut an answer off.

uvicorn itself only limits the silence between two requests. A connection whose request line and headers are
not complete in time is closed; bodies have a limit of their own (`body_limits`).

uvicorn's log calls an application that leaves an answer unfinished a broken program, and the connection waits
for a client that does not read. So an application may end the connection itself, on purpose: `cut`.
"""

import asyncio

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SLOWEST_HEADERS = 10.0
"""Seconds from the first byte (or the connection) to the end of the headers."""
CUT = "grus.cut"
"""Extension of an ASGI scope."""


async def cut(scope: Scope) -> None:
    """End the connection of this request now, with what its client has not read; gone when this returns."""
    offered = scope.get("extensions") or {}
    if CUT in offered:
        await offered[CUT]["cut"]()


class PatientProtocol(HttpToolsProtocol):
    """One connection."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own signature is as narrow
        super().connection_made(transport)
        self._lost = asyncio.Event()
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)
        self._lost.set()

    def on_message_begin(self) -> None:
        self._expect_headers()
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"cut": self._cut}}

    def on_headers_complete(self) -> None:
        self._headers_came()
        super().on_headers_complete()

    async def _cut(self) -> None:
        self.transport.abort()
        await self._lost.wait()

    def _expect_headers(self) -> None:
        self._headers_came()
        self._deadline = self.loop.call_later(SLOWEST_HEADERS, self.transport.abort)

    def _headers_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
