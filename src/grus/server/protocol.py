"""HTTP/1.1 of uvicorn with one thing added: headers that trickle in are not waited for without end.

uvicorn itself only limits the silence between two requests. A connection whose request line and headers are
not complete in time is closed; bodies have a limit of their own (`bodies`).
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SLOWEST_HEADERS = 10.0
"""Seconds from the first byte (or the connection) to the end of the headers."""


class PatientProtocol(HttpToolsProtocol):
    """One connection."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own signature is as narrow
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._expect_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._headers_came()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        self._headers_came()
        self._deadline = self.loop.call_later(SLOWEST_HEADERS, self.transport.abort)

    def _headers_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
