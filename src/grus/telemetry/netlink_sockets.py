"""TCP connections of this machine with the bytes that went over them, read from the kernel by netlink.

One query (sock_diag(7), with each connection's tcp_info) returns all connections of this process's network
namespace; it needs no rights. The inode identifies a connection's owner: a process that has it open shows it
in /proc.
"""

import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

_SOCK_DIAG = 4
_BY_FAMILY = 20
_DONE, _ERROR = 3, 2
_REQUEST_DUMP = 0x301
_TCP_INFO = 2
"""INET_DIAG_INFO, as a number and as the bit that asks for it."""
_STATES = 0xFFF & ~(1 << 3 | 1 << 6 | 1 << 10)
"""All but those of no process: not yet accepted, waiting for stragglers; and but those that only listen."""
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBBI48x")
_COOKIE_AT, _INODE_AT, _MESSAGE = 44, 68, 72
_ATTRIBUTE = struct.Struct("=HH")
_BYTES = struct.Struct("=QQ")
_BYTES_AT = 120
"""Offset in tcp_info: bytes that the other side has acknowledged, bytes received (Linux 4.1 and later)."""
_BUFFER = 1 << 18


class Connection(NamedTuple):
    inode: int
    cookie: int
    """Names it for as long as it lives; inodes are used again."""
    received: int
    sent: int


def connections() -> dict[int, Connection]:
    """Return the connections by inode; raises OSError if the kernel does not answer such queries."""
    found = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as channel:
        channel.settimeout(1.0)
        for family in (socket.AF_INET, socket.AF_INET6):
            for one in _asked(channel, family):
                found[one.inode] = one
    return found


def _asked(channel: socket.socket, family: int) -> Iterator[Connection]:
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 1 << (_TCP_INFO - 1), 0, _STATES)
    channel.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST_DUMP, 0, 0) + question)
    while True:
        answer = channel.recv(_BUFFER)
        place = 0
        while place + _HEADER.size <= len(answer):
            length, kind, _, _, _ = _HEADER.unpack_from(answer, place)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", answer, place + _HEADER.size)
                raise OSError(-code, os.strerror(-code))
            one = _read(answer, place + _HEADER.size, place + length)
            if one is not None:
                yield one
            place += (length + 3) & ~3


def _read(answer: bytes, start: int, end: int) -> Connection | None:
    """One message; None for a connection that no process has open, or of which the kernel says nothing."""
    (inode,) = struct.unpack_from("=I", answer, start + _INODE_AT)
    (cookie,) = struct.unpack_from("=Q", answer, start + _COOKIE_AT)
    place = start + _MESSAGE
    while inode and place + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(answer, place)
        if kind == _TCP_INFO and length >= _ATTRIBUTE.size + _BYTES_AT + _BYTES.size:
            sent, received = _BYTES.unpack_from(answer, place + _ATTRIBUTE.size + _BYTES_AT)
            return Connection(inode, cookie, received, sent)
        place += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return None
