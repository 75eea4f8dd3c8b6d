"""The listening socket and the HTTP server on it. Knows nothing of jobs."""

import errno
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from grus.model.errors import Conflict
from grus.server.config import ServerSettings
from grus.server.protocol import PatientProtocol
from grus.server.streams import Streams

GRACE = 5
"""Seconds that requests under way get when the server stops."""
UNREAD = 30_000
"""Milliseconds that sent bytes may stay unread before the kernel drops the connection."""
MOST_CONNECTIONS = 2000
BACKLOG = 1024
"""Connections that may wait to be taken."""


def bind(host: str, port: int) -> socket.socket:
    """A socket on that address; port 0 takes a free one. Raises Conflict if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by each connection
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"Port {port} of {host} is taken by another program. Choose one with --port; 0 takes any."
            ) from None
        raise Conflict(f"The address {host}:{port} cannot be used: {error.strerror}.") from None
    return sock


def address(sock: socket.socket, settings: ServerSettings) -> str:
    """Where clients of this machine reach it."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    scheme = "https" if settings.tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Brake:
    """Lets another thread stop the server, once, with a reason."""

    def __init__(self) -> None:
        self.why = ""
        self._server: uvicorn.Server | None = None

    def pull(self, why: str) -> None:
        self.why = why
        if self._server is not None:
            self._server.should_exit = True

    def hold(self, server: uvicorn.Server) -> None:
        """From now on `pull` stops this server; it was pulled before, perhaps."""
        self._server = server
        server.should_exit = server.should_exit or bool(self.why)


class HttpServer(uvicorn.Server):
    """uvicorn that ends the live streams before it waits for open connections."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.close()
        await super().shutdown(sockets)


def run(app: FastAPI, sock: socket.socket, settings: ServerSettings, brake: Brake) -> None:
    """Serve until SIGTERM or SIGINT, a clean stop both, or until the brake is pulled."""
    server = HttpServer(_config(app, settings), app.state.streams)
    brake.hold(server)

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a handler
        server.should_exit = True

    # For a signal that comes before uvicorn listens for it, and for those that it raises again in the end.
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[sock])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _config(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nobody in front is trusted to say who asks
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=BACKLOG,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
