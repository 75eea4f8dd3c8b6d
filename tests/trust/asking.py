"""A request and its answer as bytes on a connection of their own: what no proper client would send, too."""

import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 20.0
MOST = 4 << 20
"""Bytes of an answer that are read."""


@dataclass(frozen=True)
class Answer:
    """What came back; status 0 if the connection was closed, or nothing came, without one."""

    status: int
    head: str = ""
    body: str = ""
    closed: bool = True
    """Whether the server closed the connection."""

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.body}"


@dataclass
class Door:
    """One server: where it is, and who knocks."""

    address: str
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def connect(self, patience: float = PATIENCE) -> socket.socket:
        parts = urlsplit(self.address)
        return socket.create_connection((parts.hostname, parts.port), patience)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        patience: float = PATIENCE,
        listen: float | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
        **headers: str,
    ) -> Answer:
        """A well-formed request; `body` is sent as JSON unless it is bytes. Header names use _ for -."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Host": self.host, "Connection": "close", **self.headers}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if data:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        sent |= {name.replace("_", "-"): value for name, value in {**more, **headers}.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        return self.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data, patience, listen)

    def raw(self, request: bytes, patience: float = PATIENCE, listen: float | None = None) -> Answer:
        """These very bytes, and what comes back until the server closes or patience ends; with `listen`, for
        so many seconds after the first byte."""
        with self.connect(patience) as connection:
            try:
                connection.sendall(request)
            except OSError:  # it has heard enough, and may have said so
                return read(connection, 1.0)
            return read(connection, patience, listen)

    def signed_in(self) -> "Door":
        """The same person in a browser: with the session's cookie, and the proof that a form is ours."""
        form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": self.address}
        answer = Door(self.address).ask("POST", "/sign-in", f"token={self.token}".encode(), more=form)
        cookie = re.search(r"(?i)set-cookie: (grus_session=[^;]+)", answer.head)
        assert cookie is not None, answer.text
        browser = Door(self.address, headers={"Cookie": cookie[1], "Accept": "text/html"})
        proof = re.search(r'name="csrf" content="([^"]+)"', browser.ask("GET", "/jobs").body)
        assert proof is not None
        browser.headers |= {"Origin": self.address, "Grus-Form": proof[1]}
        return browser


def read(connection: socket.socket, patience: float, listen: float | None = None) -> Answer:
    deadline, found, closed = time.monotonic() + patience, b"", False
    try:
        while len(found) < MOST and (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            piece = connection.recv(1 << 16)
            if not piece:
                closed = True
                break
            if listen is not None and not found:
                deadline = time.monotonic() + listen
            found += piece
    except TimeoutError:
        pass
    except OSError:
        closed = True
    head, _, body = found.decode("utf-8", "replace").partition("\r\n\r\n")
    status = re.match(r"HTTP/1\.[01] (\d{3})", head)
    return Answer(int(status[1]) if status else 0, head, body, closed)
