"""Streams are bounded, woken without being missed, and cut when nobody reads."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import UserName
from grus.server.http.errors import Refusal
from grus.server.http.event_streams import LiveResponse, Streams, frame, waited
from grus.server.http.listener import bind
from grus.server.http.uvicorn_protocol import PatientProtocol

ADA, BEN, EVE = UserName("ada"), UserName("ben"), UserName("eve")
SCOPE: dict[str, Any] = {"type": "http", "asgi": {"spec_version": "2.3"}}


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_frame_is_what_browsers_read() -> None:
    assert frame("event", b'{"a":1}', 7) == b'id: 7\nevent: event\ndata: {"a":1}\n\n'
    assert frame("usage", b"[]") == b"event: usage\ndata: []\n\n"


def test_places_are_bounded_in_all_and_for_each_person() -> None:
    streams = Streams(most=3, most_each=2)
    with streams.place(ADA), streams.place(ADA):
        with pytest.raises(Refusal), streams.place(ADA):
            pass
        with streams.place(BEN):
            with pytest.raises(Refusal), streams.place(EVE):
                pass
            assert streams.count == 3
    assert streams.count == 0


def test_a_poke_from_another_thread_wakes_whoever_holds_a_ticket() -> None:
    async def run() -> None:
        streams = Streams()
        streams.attach()
        ticket = streams.ticket()
        for _ in range(100):
            threading.Thread(target=streams.poke).start()
        assert await waited(ticket, 5)
        assert not streams.ticket().is_set() or streams.ticket() is not ticket

    asyncio.run(run())


def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    async def run() -> None:
        streams = Streams()
        streams.attach()
        ticket = streams.ticket()
        streams.poke()
        await waited(ticket, 5)  # the change happens here, while the stream still reads
        assert await waited(ticket, 0)

    asyncio.run(run())


async def two_pieces() -> AsyncGenerator[bytes, None]:
    yield b"one"
    yield b"two"


def test_a_client_that_does_not_read_is_cut_and_its_place_is_free() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("body") == b"one":
            await asyncio.Event().wait()

    streams = Streams()
    asyncio.run(LiveResponse(two_pieces(), streams, ADA, slowest=0.01)(SCOPE, never, send))
    assert [message.get("body") for message in sent] == [None, b"one"]
    assert streams.count == 0


def test_a_cut_ends_the_connection_and_nothing_false_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    streams = Streams()

    async def flood() -> AsyncGenerator[bytes, None]:
        while True:
            yield bytes(1 << 20)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await LiveResponse(flood(), streams, ADA, slowest=0.1)(scope, receive, send)

    async def run() -> None:
        with bind("127.0.0.1", 0) as sock, socket.socket() as client:
            sock.listen()
            config = uvicorn.Config(app, http=PatientProtocol, lifespan="off", log_config=None, ws="none")
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server._serve([sock]))
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, sock.getsockname())
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            async with asyncio.timeout(30):
                while "was cut" not in caplog.text or server.server_state.connections:
                    await asyncio.sleep(0.01)
            server.should_exit = True
            await serving

    asyncio.run(run())
    assert streams.count == 0
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_a_client_that_leaves_ends_its_stream() -> None:
    closed = []

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def leave() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        return

    streams = Streams()
    asyncio.run(LiveResponse(endless(), streams, ADA)(SCOPE, leave, send))
    assert streams.count == 0


def test_an_error_on_the_way_is_the_last_thing_told() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"one"
        raise NotLoggedIn("gone")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(LiveResponse(pieces(), Streams(), ADA)(SCOPE, never, send))
    assert sent[2]["body"].startswith(b'event: error\ndata: {"code":"not_logged_in"')
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
