"""Frames of a web socket (RFC 6455, section 5) as a server reads and writes them; no extensions."""

import asyncio
import struct
from dataclasses import dataclass
from enum import IntEnum

NORMAL, PROTOCOL_ERROR, NOT_TEXT, TOO_BIG = 1000, 1002, 1007, 1009
"""Codes of a close frame."""
LONGEST_CONTROL = 125
_FINAL, _MASKED, _RESERVED, _CONTROL = 0x80, 0x80, 0x70, 0x08


class Opcode(IntEnum):
    """Kind of a frame."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Violation(Exception):
    """The peer broke the protocol; `code` goes into the close frame."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the peer broke the web socket protocol ({code})")
        self.code = code


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a client."""

    opcode: Opcode
    data: bytes
    final: bool


async def read_frame(reader: asyncio.StreamReader, room: int) -> Frame:
    """Read one frame with at most `room` bytes of data. Raises Violation, IncompleteReadError at the end."""
    first, second = await reader.readexactly(2)
    length, control = second & 0x7F, bool(first & _CONTROL)
    if first & _RESERVED or not second & _MASKED:
        raise Violation(PROTOCOL_ERROR)
    if control and (length > LONGEST_CONTROL or not first & _FINAL):
        raise Violation(PROTOCOL_ERROR)
    try:
        opcode = Opcode(first & 0x0F)
    except ValueError:
        raise Violation(PROTOCOL_ERROR) from None
    if length == 126:
        (length,) = struct.unpack("!H", await reader.readexactly(2))
    elif length == 127:
        (length,) = struct.unpack("!Q", await reader.readexactly(8))
    if not control and length > room:
        raise Violation(TOO_BIG)
    mask = await reader.readexactly(4)
    return Frame(opcode, masked(await reader.readexactly(length), mask), bool(first & _FINAL))


def frame(opcode: Opcode, data: bytes) -> bytes:
    """Build a whole message, or a control frame, as a server sends it."""
    head = bytes([_FINAL | opcode])
    if len(data) < 126:
        return head + bytes([len(data)]) + data
    if len(data) < 1 << 16:
        return head + struct.pack("!BH", 126, len(data)) + data
    return head + struct.pack("!BQ", 127, len(data)) + data


def masked(data: bytes, mask: bytes) -> bytes:
    """Mask or unmask data; both are the same."""
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(len(data))
