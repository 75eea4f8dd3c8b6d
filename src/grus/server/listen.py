"""The listening socket and the HTTP server on it. Knows nothing of jobs."""

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from grus.model.errors import Conflict
from grus.server.config import ServerSettings
from grus.server.protocol import PatientProtocol

GRACE = 5
"""Seconds that requests under way get when the server stops."""
UNREAD = 30_000
"""Milliseconds that sent bytes may stay unread before the kernel drops the connection."""
MOST_CONNECTIONS = 2000


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
                f"Port {port} of {host} is taken by another program. Choose another with --port, or 0 for any."
            ) from None
        raise Conflict(f"The address {host}:{port} cannot be used: {error.strerror}.") from None
    return sock


def address(sock: socket.socket, settings: ServerSettings) -> str:
    """Where clients of this machine reach it."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    scheme = "https" if settings.tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class HttpServer(uvicorn.Server):
    """uvicorn that tells of the stop before it waits for open connections, streams among them."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._on_stop()


def run(app: FastAPI, sock: socket.socket, settings: ServerSettings) -> None:
    """Serve until SIGTERM or SIGINT; both are a clean stop."""
    config = uvicorn.Config(
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
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
    server = HttpServer(config, app.state.streams.close_soon)
    # uvicorn raises the signal again when it has stopped: it has been obeyed, nothing is left to do then.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[sock])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
