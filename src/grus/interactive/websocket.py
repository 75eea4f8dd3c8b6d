"""Web socket server (RFC 6455) on asyncio streams, with the standard library alone.

Serves the shell of a session to the proxy on the same machine. A peer that stops reading is cut off.
"""

import asyncio
import base64
import hashlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from grus.interactive.websocket_frames import (
    NORMAL,
    NOT_TEXT,
    PROTOCOL_ERROR,
    Opcode,
    Violation,
    frame,
    read_frame,
)

SLOWEST_OPEN = 10.0
"""Seconds for a peer to send its request."""
SLOWEST_READER = 40.0
"""Seconds for a peer to take what is sent to it."""
LAST = 5.0
"""Seconds for a peer to answer a close frame, and for handlers to end with the server."""
_PIECE = 64 << 10
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_GONE = (ConnectionError, asyncio.IncompleteReadError)


@dataclass(frozen=True, slots=True)
class Request:
    """Request for a web socket; the names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]


Refusal = tuple[HTTPStatus, str]
Admit = Callable[[Request], Refusal | None]
Handle = Callable[["Connection"], Awaitable[None]]


class Connection:
    """Open web socket. One task reads, any number of tasks send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, largest: int) -> None:
        self._reader = reader
        self._writer = writer
        self._largest = largest
        self._closing = False

    async def send(self, data: bytes) -> None:
        """Send a binary message. Raises ConnectionError if the peer is gone or does not read."""
        if self._closing:
            raise ConnectionError("the connection is closing")
        self._writer.write(frame(Opcode.BINARY, data))
        try:
            async with asyncio.timeout(SLOWEST_READER):
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()
            raise ConnectionError("the peer does not read") from None

    async def messages(self) -> AsyncIterator[bytes | str]:
        """Messages of the peer, until either side closes."""
        try:
            while (message := await self._message()) is not None:
                yield message
        except Violation as error:
            self.close(error.code)
            await self._discard()
        except _GONE:
            pass

    def close(self, code: int = NORMAL) -> None:
        """Close after what was sent; repeatable. The peer has LAST seconds to answer."""
        if not self._closing:
            self._closing = True
            self._writer.write(frame(Opcode.CLOSE, struct.pack("!H", code)))
            asyncio.get_running_loop().call_later(LAST, self._writer.transport.abort)

    async def _discard(self) -> None:
        """Read on until the peer ends: unread bytes would reset the connection before the close frame."""
        self._writer.write_eof()
        with suppress(*_GONE):
            while await self._reader.read(_PIECE):
                pass

    async def _message(self) -> bytes | str | None:
        """The next one; None for a close frame."""
        data, kind = bytearray(), Opcode.CONTINUATION
        while True:
            one = await read_frame(self._reader, self._largest - len(data))
            if one.opcode is Opcode.CLOSE:
                self.close()
                return None
            if one.opcode is Opcode.PING and not self._closing:
                self._writer.write(frame(Opcode.PONG, one.data))
            if one.opcode >= Opcode.CLOSE:
                continue
            if (one.opcode is Opcode.CONTINUATION) == (kind is Opcode.CONTINUATION):
                raise Violation(PROTOCOL_ERROR)
            kind = kind or one.opcode
            data += one.data
            if one.final:
                return bytes(data) if kind is Opcode.BINARY else _text(data)


def _text(data: bytearray) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Violation(NOT_TEXT) from None


@asynccontextmanager
async def serving(handle: Handle, host: str, admit: Admit, largest: int) -> AsyncIterator[int]:
    """Serve on a free port, which is the value; at the end handlers get LAST seconds to finish.

    `admit` refuses requests; `largest` is in bytes of one message.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            if await _opened(reader, writer, admit):
                await handle(Connection(reader, writer, largest))
        except (*_GONE, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LAST)
            for task in late:
                task.cancel()


async def _opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, admit: Admit) -> bool:
    """True if the request was one for a web socket, admitted, and answered so."""
    async with asyncio.timeout(SLOWEST_OPEN):
        head = await reader.readuntil(b"\r\n\r\n")
    request = _parsed(head.decode("latin-1"))
    refused = admit(request) or _unfit(request.headers)
    writer.write(_accepted(request) if refused is None else _answer(*refused))
    await writer.drain()
    return refused is None


def _parsed(head: str) -> Request:
    """Parse the head of a request; anything but a GET gets an empty path, which is admitted nowhere."""
    first, *lines = head.rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(words[1] if len(words) == 3 and words[0] == "GET" else "", headers)


def _unfit(headers: Mapping[str, str]) -> Refusal | None:
    fits = (
        headers.get("upgrade", "").lower() == "websocket"
        and "upgrade" in headers.get("connection", "").lower()
        and headers.get("sec-websocket-version") == "13"
        and "sec-websocket-key" in headers
    )
    return None if fits else (HTTPStatus.UPGRADE_REQUIRED, "This is for web sockets (version 13) alone.\n")


def _accepted(request: Request) -> bytes:
    key = request.headers["sec-websocket-key"].encode("latin-1")
    proof = base64.b64encode(hashlib.sha1(key + _KEY, usedforsecurity=False).digest()).decode()
    lines = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {proof}")
    return _head(HTTPStatus.SWITCHING_PROTOCOLS, *lines)


def _answer(status: HTTPStatus, text: str) -> bytes:
    body = text.encode()
    lines = ("Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close")
    return _head(status, *lines) + body


def _head(status: HTTPStatus, *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status.value} {status.phrase}", *lines, "", "")).encode("latin-1")
