"""Web sockets between a browser and a session: each message as it is, either side waiting for the other."""

import asyncio
from contextlib import suppress

from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from grus.server.session_proxy.cookie_auth import SessionAccess

LARGEST_MESSAGE = 64 << 20
"""Bytes of one message, either way."""
WAITING = 16
"""Messages that wait here to be taken."""
SLOWEST_OPEN = 10.0
"""Seconds for the session to answer."""
NOBODY = 1005
"""Represents a close without a code; it must not be sent (RFC 6455, 7.4.1)."""


def joined(passage: SessionAccess, scope: Scope, headers: list[tuple[bytes, bytes]]) -> connect:
    """The other half of the way: a web socket to the session."""
    query = scope["query_string"].decode("ascii")
    path = scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
    sent = [(name.decode("ascii"), value.decode("latin-1")) for name, value in headers if name != b"host"]
    return connect(
        f"ws://{passage.endpoint.address}{path}",
        additional_headers=sent,
        subprotocols=[Subprotocol(name) for name in scope["subprotocols"]] or None,
        user_agent_header=None,
        compression=None,  # it is on the same machine
        proxy=None,
        max_size=LARGEST_MESSAGE,
        max_queue=WAITING,
        open_timeout=SLOWEST_OPEN,
    )


async def relay(session: ClientConnection, receive: Receive, send: Send) -> None:
    """Relay messages until either side ends the connection; pass its reason, if any, to the other side."""
    onward = asyncio.create_task(_onward(session, receive))
    backward = asyncio.create_task(_backward(session, send))
    try:
        await asyncio.wait({onward, backward}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (onward, backward):
            task.cancel()
        await asyncio.gather(onward, backward, return_exceptions=True)


async def _onward(session: ClientConnection, receive: Receive) -> None:
    with suppress(ConnectionClosed):
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                await session.close(_sendable(message.get("code")), str(message.get("reason") or "")[:100])
                return
            text = message.get("text")
            await session.send(message["bytes"] if text is None else text)


async def _backward(session: ClientConnection, send: Send) -> None:
    with suppress(ConnectionClosed):
        async for message in session:
            kind = "text" if isinstance(message, str) else "bytes"
            await send({"type": "websocket.send", kind: message})
    code, reason = _sendable(session.close_code), session.close_reason or ""
    await send({"type": "websocket.close", "code": code, "reason": reason})


def _sendable(code: int | None) -> int:
    """A code that may be sent on: those that stand for silence become a plain goodbye."""
    return (
        code if code is not None and 1000 <= code < 5000 and code not in (1004, NOBODY, 1006, 1015) else 1000
    )
