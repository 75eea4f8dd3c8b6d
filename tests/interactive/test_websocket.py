"""The web socket server of the standard library speaks with a client that is not ours, and bears bad ones."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from grus.interactive.websocket import Connection, Refusal, Request, serving
from grus.interactive.websocket_frames import masked

LARGEST = 200_000
HANDSHAKE = (
    b"GET /open HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
MASK = b"\1\2\3\4"


async def echo(connection: Connection) -> None:
    async for message in connection.messages():
        await connection.send(message if isinstance(message, bytes) else b"text " + message.encode())
        if message == b"over":
            connection.close()


def admit(request: Request) -> Refusal | None:
    return None if request.path == "/open" else (HTTPStatus.NOT_FOUND, "not here\n")


def with_server(client: Callable[[int], Awaitable[None]]) -> None:
    async def both() -> None:
        async with asyncio.timeout(20), serving(echo, "127.0.0.1", admit, LARGEST) as port:
            await client(port)

    asyncio.run(both())


def sent(first: int, data: bytes, *, mask: bool = True) -> bytes:
    """A frame as a client sends it."""
    size = bytes([len(data) | 0x80 * mask]) if len(data) < 126 else struct.pack("!BQ", 127 | 0x80, len(data))
    return bytes([first]) + size + (MASK + masked(data, MASK) if mask else data)


def answer(*frames: bytes) -> bytes:
    """All that the server sends after the handshake, until it closes the connection."""
    found = b""

    async def client(port: int) -> None:
        nonlocal found
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"101 Switching Protocols" in head
        assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head  # the example of RFC 6455
        for frame in frames:
            writer.write(frame)
        found = await reader.read()
        writer.close()

    with_server(client)
    return found


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536, LARGEST])
def test_messages_of_every_size_come_through(size: int) -> None:
    async def client(port: int) -> None:
        async with connect(f"ws://127.0.0.1:{port}/open", proxy=None, compression=None) as connection:
            await connection.send(bytes(size))
            assert await connection.recv() == bytes(size)
            await connection.send("größe")
            assert await connection.recv() == b"text " + "größe".encode()
            assert await (await connection.ping(b"alive")) >= 0

    with_server(client)


def test_what_was_sent_before_the_server_closes_arrives() -> None:
    async def client(port: int) -> None:
        async with connect(f"ws://127.0.0.1:{port}/open", proxy=None) as connection:
            await connection.send(b"over")
            assert await connection.recv() == b"over"
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1000

    with_server(client)


def test_a_request_that_is_not_admitted_or_no_web_socket_is_refused() -> None:
    async def client(port: int) -> None:
        with pytest.raises(InvalidStatus, match="404"):
            await connect(f"ws://127.0.0.1:{port}/other", proxy=None)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /open HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 426 ")
        writer.close()

    with_server(client)


def test_a_message_in_pieces_is_one_with_a_ping_between_them() -> None:
    answered = answer(sent(0x02, b"in "), sent(0x89, b"?"), sent(0x80, b"two"), sent(0x88, b""))
    assert answered == b"\x8a\x01?" + b"\x82\x06in two" + b"\x88\x02\x03\xe8"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (sent(0x82, b"open", mask=False), 1002),
        (sent(0xC2, b"with an extension"), 1002),
        (sent(0x80, b"continues nothing"), 1002),
        (sent(0x83, b"of no known kind"), 1002),
        (sent(0x09, b"a ping in pieces"), 1002),
        (sent(0x81, b"\xff\xfe"), 1007),
        (sent(0x82, bytes(LARGEST + 1)), 1009),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_told_so_and_cut_off(frame: bytes, code: int) -> None:
    assert answer(frame) == b"\x88\x02" + struct.pack("!H", code)


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masking_twice_changes_nothing(data: bytes, mask: bytes) -> None:
    assert masked(data, mask) == bytes(one ^ mask[place % 4] for place, one in enumerate(data))
    assert masked(masked(data, mask), mask) == data
