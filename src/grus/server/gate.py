"""The only door: nothing reaches a route, a mounted page or a 404 without passing here.

In order: the Host must be ours (DNS rebinding), the Origin, if any, must be ours (requests forged by web
pages), the caller must have a token, and must not ask too often. Paths without a token are the few in PUBLIC.
What is found out of the caller is left in `request.state.caller`. Pure ASGI: it runs on every request.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grus.model.errors import GrusError, NotLoggedIn
from grus.model.ports import User
from grus.server.errors import Refusal, of_grus_error, of_surprise
from grus.server.rate import RateLimit

PUBLIC = frozenset({"/healthz"})
"""Readable by anybody who reaches the port. It tells nothing but whether the server works."""

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
UNLESS_SET = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the way to find out later whether the token still holds."""

    user: User
    token: str
    """A digest that tells tokens apart; never the secret."""
    verify: Callable[[], User]


class Gate:
    """The outermost layer of the app."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        whoami: Callable[[str], User],
        hosts: Iterable[str],
        origins: Iterable[str] = (),
        limit: RateLimit,
    ) -> None:
        self._app = app
        self._whoami = whoami
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, _Hardened(send))
        else:  # there are no web sockets here, and what comes later must be let in on purpose
            await send({"type": "websocket.close", "code": 1008})

    async def _guarded(self, scope: Scope, receive: Receive, send: "_Hardened") -> None:
        try:
            refused = self._refused(scope)
            await (self._app if refused is None else refused)(scope, receive, send)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of a request: the cause is logged, a 500 goes out
            answer = of_surprise(error, f"{scope['method']} {scope['path']}")
            if not send.started:
                await answer(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that may not go on; None for one that may."""
        headers = Headers(scope=scope)
        try:
            self._check_place(scope, headers)
            if scope["path"] not in PUBLIC:
                caller = self._caller(headers)
                self._limit.check(caller.token)
                scope.setdefault("state", {})["caller"] = caller
        except Refusal as refusal:
            return refusal.response()
        except GrusError as error:
            return of_grus_error(error)
        return None

    def _check_place(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if hostname(host) not in self._hosts:
            raise Refusal(421, "wrong_host", f"This server does not answer to the name {host!r}.")
        origin = headers.get("origin")
        if origin is None or origin.lower() == f"{scope['scheme']}://{host}".lower():
            return
        if origin.lower() not in self._origins:
            raise Refusal(403, "wrong_origin", "Requests made by pages of other sites are refused.")

    def _caller(self, headers: Headers) -> Caller:
        given = headers.getlist("authorization")
        scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not secret.strip():
            raise NotLoggedIn("A token is needed: send `Authorization: Bearer TOKEN`.")
        secret = secret.strip()
        user = self._whoami(secret)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        return Caller(user=user, token=digest, verify=lambda: self._whoami(secret))


class _Hardened:
    """`send` that adds the security headers to the answer, and knows whether the answer has begun."""

    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = [*message.get("headers", ()), *SECURITY_HEADERS]
            present = {name for name, _ in headers}
            headers.extend(pair for pair in UNLESS_SET if pair[0] not in present)
            message = {**message, "headers": headers}
        await self._send(message)


def hostname(host: str) -> str:
    """The name in a Host header, without its port, in lower case; IPv6 addresses keep their brackets."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host
