"""A connection that sends its headers too slowly is not kept."""

import asyncio
from typing import Any

import pytest
import uvicorn

from grus.server.http import uvicorn_protocol
from grus.server.http.listener import bind


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def talk(*parts: bytes) -> bytes:
    """What a server answers to these bytes until it closes the connection."""
    with bind("127.0.0.1", 0) as sock:
        sock.listen()
        config = uvicorn.Config(
            app, http=uvicorn_protocol.PatientProtocol, lifespan="off", log_config=None, ws="none"
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([sock]))
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        for part in parts:
            writer.write(part)
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        server.should_exit = True
        await serving
        return answer


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_protocol, "SLOWEST_HEADERS", 0.2)


def test_a_connection_without_a_request_is_closed() -> None:
    assert _cut(talk())


def test_half_a_request_is_not_waited_for() -> None:
    assert _cut(talk(b"GET / HTTP/1.1\r\nHost: a\r\n"))


def test_half_a_second_request_is_not_waited_for_either() -> None:
    first = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    answer = asyncio.run(_tolerant(talk(first, b"GET / HT")))
    assert answer.startswith(b"HTTP/1.1 204")


def _cut(talking: Any) -> bool:
    return asyncio.run(_tolerant(talking)) == b""


async def _tolerant(talking: Any) -> bytes:
    try:
        found = await talking
    except ConnectionResetError:
        return b""
    assert isinstance(found, bytes)
    return found
