"""Requests to an API server over kept connections, and what is done when they fail.

A request that fails is repeated, with growing pauses, as long as patience lasts and the repetition can do no
harm: one that may have been carried out is repeated only if twice is the same as once. Streams (watches,
logs) have connections of their own, so that they never keep a request waiting.
"""

import math
import random
import socket
import ssl
import threading
import time
from collections.abc import Generator
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    EmptyPoolError,
    HTTPError,
    InsecureRequestWarning,
    NewConnectionError,
    SSLError,
)

from grus.kubernetes.client.errors import Unreachable, refusal
from grus.kubernetes.client.kubeconfig import Access
from grus.kubernetes.client.write_guard import Guard, GuardedHTTP, GuardedHTTPS, guarded

JSON = "application/json"
CONNECT = 5.0
"""Seconds for a connection to be made."""
ANSWER = 30.0
"""Seconds for an answer to begin: a big list takes the server a while."""
STREAMS = 32
"""Connections that are kept for streams; there may be more of them at a time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
_LATER = frozenset({429, 500, 502, 503, 504})
"""Answers that mean: not now."""
_BLOCK = 1 << 16
_NOT_SENT = (NewConnectionError, ConnectTimeoutError, EmptyPoolError, SSLError)


def _socket_options() -> list[tuple[int, int, int]]:
    """No waiting for full packets; a peer that lost power is noticed within half a minute."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not on every system
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


class Transport:
    """The connections to one API server. Any thread may use it."""

    def __init__(self, access: Access, *, connections: int) -> None:
        self.access = access
        self._prefix = urlsplit(access.server).path.rstrip("/")
        self._requests = self._pool(connections, wait=True)
        self._streams = self._pool(STREAMS, wait=False)
        self._closed = threading.Event()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        content: str,
        repeatable: bool,
        patience: float,
        answer: float,
        guard: Guard | None = None,
    ) -> bytes:
        """Send a request and return the answer's body, with `answer` seconds for each try.

        With a guard, it is sent only while the guard returns true. Raises Refused, or Unreachable once
        patience (seconds) is over.
        """
        end = time.monotonic() + patience
        pause = FIRST_PAUSE
        while True:
            try:
                with guarded(guard):
                    return self._send_once(method, path, body, content, answer)
            except Unreachable as trouble:
                wait = max(trouble.after, pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads callers, no secret
                hopeless = trouble.lasting or (trouble.arrived and not repeatable)
                if hopeless or time.monotonic() + wait > end or self._closed.wait(wait):
                    raise
            pause = min(2 * pause, LONGEST_PAUSE)

    def open(self, path: str, *, silence: float | None) -> "Stream":
        """The answer as it comes; after `silence` seconds without a byte it counts as broken."""
        answer = self._ask(self._streams, "GET", path, None, JSON, silence, whole=False)
        if answer.status == 200:
            return Stream(answer)
        try:
            body = answer.read(_BLOCK)
        except HTTPError:
            body = b""
        finally:
            answer.close()
        raise _problem(answer, body)

    def close(self) -> None:
        """Close the connections and end waits for retries; streams are closed by their openers."""
        self._closed.set()
        self._requests.close()
        self._streams.close()

    def _send_once(self, method: str, path: str, body: bytes | None, content: str, limit: float) -> bytes:
        answer = self._ask(self._requests, method, path, body, content, limit, whole=True)
        if answer.status < 300:
            return answer.data
        raise _problem(answer, answer.data)

    def _ask(
        self,
        pool: urllib3.HTTPConnectionPool,
        method: str,
        path: str,
        body: bytes | None,
        content: str,
        silence: float | None,
        *,
        whole: bool,
    ) -> urllib3.BaseHTTPResponse:
        """One exchange; a second one with new credentials where the old ones are not taken any more."""
        header = self.access.credential.header()
        answer = self._exchange(pool, method, path, body, content, silence, header, whole)
        if answer.status == 401 and self.access.credential.renew(header):
            if not whole:
                answer.close()
            header = self.access.credential.header()
            answer = self._exchange(pool, method, path, body, content, silence, header, whole)
        return answer

    def _exchange(
        self,
        pool: urllib3.HTTPConnectionPool,
        method: str,
        path: str,
        body: bytes | None,
        content: str,
        silence: float | None,
        authorization: str,
        whole: bool,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": JSON, "User-Agent": "grus"}
        if authorization:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content
        try:
            return pool.urlopen(
                method,
                self._prefix + path,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=CONNECT, read=silence),
                pool_timeout=None if silence is None else math.ceil(silence),
                preload_content=whole,
            )
        except HTTPError as why:
            raise _trouble(self.access.server, why) from why

    def _pool(self, connections: int, *, wait: bool) -> urllib3.HTTPConnectionPool:
        parts = urlsplit(self.access.server)
        host = parts.hostname or ""
        if self.access.trust is None:
            plain = urllib3.HTTPConnectionPool(
                host, parts.port or 80, maxsize=connections, block=wait, socket_options=_socket_options()
            )
            plain.ConnectionCls = GuardedHTTP
            return plain
        if not self.access.trust.check_hostname:  # the user has set this; one warning is enough
            urllib3.disable_warnings(InsecureRequestWarning)
        safe = urllib3.HTTPSConnectionPool(
            host,
            parts.port or 443,
            maxsize=connections,
            block=wait,
            ssl_context=self.access.trust,
            assert_hostname=None if self.access.trust.check_hostname else False,
            socket_options=_socket_options(),
        )
        safe.ConnectionCls = GuardedHTTPS
        return safe


class Stream:
    """Streaming answer. One thread reads it; any thread may close it."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer
        self._closed = False

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the chunks, until the server ends the answer or it is closed; Unreachable if it breaks."""
        try:
            yield from self._answer.stream(_BLOCK)
        except (HTTPError, OSError) as why:
            if not self._closed:
                raise Unreachable(f"the API server's answer broke off: {why}", arrived=True) from why
        finally:
            self._answer.close()

    def lines(self) -> Generator[bytes, None, None]:
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
        if rest and not self._closed:  # the rest of a line that was cut by closing is unknown
            yield rest

    def close(self) -> None:
        """Wake up a thread that waits for more; that thread then closes the connection."""
        self._closed = True
        try:
            self._answer.shutdown()
        except (ValueError, RuntimeError, OSError):  # it has ended already
            self._answer.close()

    def end(self) -> None:
        """End the stream, called by the thread that reads: no more is needed."""
        self._closed = True
        self._answer.close()


def _problem(answer: urllib3.BaseHTTPResponse, body: bytes) -> Exception:
    said = refusal(answer.status, body)
    if answer.status not in _LATER:
        return said
    after = answer.headers.get("Retry-After") or ""
    return Unreachable(
        f"the API server cannot now: {said.text} ({answer.status})",
        arrived=answer.status != 429,
        after=float(after) if after.isdecimal() else 0.0,
    )


def _trouble(server: str, why: HTTPError) -> Unreachable:
    distrust = isinstance(why, SSLError) and isinstance(why.args[0], ssl.SSLCertVerificationError)
    return Unreachable(
        f"no answer from the API server {server}: {why}",
        arrived=not isinstance(why, _NOT_SENT),
        lasting=distrust,
    )
