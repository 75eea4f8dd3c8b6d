"""The listening socket and the HTTP server on it. Knows nothing of jobs."""

import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from grus.model.errors import BadInput, Conflict, Mistake
from grus.sdk.connection_errors import is_loopback
from grus.server.config import ServerSettings
from grus.server.http.event_streams import Streams
from grus.server.http.uvicorn_protocol import PatientProtocol
from grus.server.runtime.tls_certificate import is_address
from grus.server.session_proxy.websockets import LARGEST_MESSAGE

log = logging.getLogger(__name__)

GRACE = 5
"""Seconds that requests under way get when the server stops."""
UNREAD = 30_000
"""Milliseconds that sent bytes may stay unread before the kernel drops the connection."""
MOST_CONNECTIONS = 2000
SOCKETS: dict[str, Any] = {"ws": "websockets-sansio", "ws_max_size": LARGEST_MESSAGE}
"""Options of uvicorn for an app with web sockets."""
BACKLOG = 1024
"""Connections that may wait to be taken."""
EVERY = "0.0.0.0"  # noqa: S104 - only where its owner says so
"""Every address of the machine."""


Resolve = Callable[[str], list[str]]


def resolved(name: str) -> list[str]:
    """Addresses of a name, as this machine looks them up; none if it knows none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(sockaddr[0]) for *_, sockaddr in found]


def interface(host: str, resolve: Resolve = resolved) -> str:
    """Return the address to listen on: the host itself if it is one, else the address of the name.

    Debian gives a machine's own name a loopback address (127.0.1.1): then it is every address, since other
    machines could not reach that one. Raises BadInput for a name without an address.
    """
    if is_loopback(host) and not is_address(host):
        return "127.0.0.1"
    if is_address(host):
        return host
    if not host:
        return EVERY
    found = resolve(host)
    if not found:
        rule = f"has no address on this machine: check the name, or listen on all of them with --host {EVERY}"
        raise BadInput([Mistake("--host", rule, host)])
    return min((one for one in found if not is_loopback(one)), key=lambda one: ":" in one, default=EVERY)


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
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
                f"Port {port} of {host} is taken by another program. Choose one with {option}; 0 takes any."
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise Conflict(
                f"{host} is no address of this machine. Choose one of its own with --host; {EVERY} takes all."
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise Conflict(
                f"Port {port} needs root (ports below 1024 do). Choose a higher one with {option}."
            ) from None
        raise Conflict(f"The address {host}:{port} cannot be used: {error.strerror}.") from None
    return sock


def address(sock: socket.socket, settings: ServerSettings) -> str:
    """The server's address for people, on this machine and others."""
    return _address(settings.public_host, sock, settings)


def local_address(sock: socket.socket, settings: ServerSettings) -> str:
    """The server's address for clients of this machine, without a name that must be looked up."""
    return _address(local_host(sock), sock, settings)


def local_host(sock: socket.socket) -> str:
    """The host of `local_address`."""
    host = str(sock.getsockname()[0])
    host = {EVERY: "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _address(host: str, sock: socket.socket, settings: ServerSettings) -> str:
    return f"{'https' if settings.tls else 'http'}://{host}:{sock.getsockname()[1]}"


def bind_beside(host: str, main: int, wanted: int | None) -> socket.socket:
    """A socket for a second app: on the port that is wanted, else on the one after the main one if it is
    free, else on any."""
    if wanted is not None:
        return bind(host, wanted, "--dev-port")
    with suppress(Conflict, OverflowError):
        return bind(host, main + 1)
    return bind(host, 0)


class SecondaryServer:
    """A second app on a socket and a thread of its own, for as long as the first is served."""

    def __init__(self, app: ASGIApp, sock: socket.socket, settings: ServerSettings, **options: Any) -> None:
        self._server = uvicorn.Server(_config(app, settings, **options))
        self._sock = sock
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)

    def start(self) -> None:
        self._sock.listen(BACKLOG)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._sock])
        except Exception:  # the top of a thread
            log.exception("the way into development sessions has broken; the rest goes on")


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
        """Let `pull` stop this server from now on; stop it at once if it was pulled before."""
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


def _config(app: ASGIApp, settings: ServerSettings, ws: str = "none", **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws=ws,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # no proxy in front is trusted to name the client
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=BACKLOG,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        **options,
    )
