"""The only door: nothing reaches a route, a mounted page or a 404 without passing here.

In order: the Host must be ours (DNS rebinding), the Origin, if any, must be ours (requests forged by web
pages), the caller must have a token or the session of a browser, and must not ask too often. Paths without
are the few in PUBLIC and, where there are pages, the way to sign in. What is found out of the caller is left
in `request.state.caller`. Pure ASGI: it runs on every request.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grus.model.errors import GrusError, NotLoggedIn
from grus.model.interfaces import User
from grus.server.http.errors import Refusal, of_grus_error, of_surprise
from grus.server.http.rate_limit import RateLimit
from grus.server.http.session_cookies import COOKIE, FORM, Session, Sessions, same

PUBLIC = frozenset({"/healthz"})
"""Readable by anybody who reaches the port. It reveals only whether the server works."""
SIGN_IN = "/sign-in"
SIGN_OUT = "/sign-out"
STATIC = "/static/"
"""Styles and scripts of the pages: the same for everybody, and nothing of anybody in them."""
LONGEST_FORM = 4096
"""Bytes that somebody without a token may send."""
SAFE = frozenset({"GET", "HEAD"})

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
UNLESS_SET = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, and the way to find out later whether the token is still valid."""

    user: User
    token: str
    """A digest that distinguishes tokens; never the secret."""
    verify: Callable[[], User]
    form: str = ""
    """For a browser's session: the value by which a form is recognized as ours."""


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
        sessions: Sessions | None = None,
    ) -> None:
        """Create the gate. With `sessions` there are pages, and people may come with a browser."""
        self._app = app
        self._whoami = whoami
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._limit = limit
        self._sessions = sessions

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
        """Return the answer to a refused request; None for an accepted one."""
        headers = Headers(scope=scope)
        try:
            self._check_place(scope, headers)
            if self._is_public(scope["path"]):
                self._check_stranger(scope, headers)
            else:
                caller = self._caller(scope, headers)
                self._limit.check(caller.user.name)
                scope.setdefault("state", {})["caller"] = caller
        except Refusal as refusal:
            return refusal.response()
        except NotLoggedIn as error:
            return self._to_sign_in(scope, headers) or of_grus_error(error)
        except GrusError as error:
            return of_grus_error(error)
        return None

    def _is_public(self, path: str) -> bool:
        return path in PUBLIC or (self._sessions is not None and (path == SIGN_IN or path.startswith(STATIC)))

    def _check_stranger(self, scope: Scope, headers: Headers) -> None:
        """Limit requests without a token: they may send little, and only from the page that asks for one."""
        if scope["method"] in SAFE:
            return
        if "origin" not in headers:
            raise Refusal(403, "wrong_origin", "Only the page that asks for the token may sign in.")
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LONGEST_FORM:
            raise Refusal(413, "too_large", f"A body here says its length, {LONGEST_FORM} bytes at most.")

    def _to_sign_in(self, scope: Scope, headers: Headers) -> Response | None:
        """Redirect people to the sign-in page; programs receive an error."""
        browses = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
        if self._sessions is None or not browses or "authorization" in headers:
            return None
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        back = "" if wanted == "/" else f"?next={quote(wanted, safe='')}"
        return RedirectResponse(f"{SIGN_IN}{back}", 303)

    def _check_place(self, scope: Scope, headers: Headers) -> None:
        given = headers.getlist("host")
        host = given[0] if len(given) == 1 else ", ".join(given)  # two of them match no name
        if hostname(host) not in self._hosts:
            raise Refusal(421, "wrong_host", f"This server does not answer to the name {host!r}.")
        origin = headers.get("origin")
        if origin is None or origin.lower() == f"{scope['scheme']}://{host}".lower():
            return
        if origin.lower() not in self._origins:
            raise Refusal(403, "wrong_origin", "Requests made by pages of other sites are refused.")

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        given = headers.getlist("authorization")
        if not given and (cookie := cookie_in(headers)) and self._sessions is not None:
            return self._signed_in(scope, headers, cookie, self._sessions)
        scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not secret.strip():
            raise NotLoggedIn("A token is needed: send `Authorization: Bearer TOKEN`.")
        secret = secret.strip()
        user = self._whoami(secret)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        return Caller(user=user, token=digest, verify=lambda: self._whoami(secret))

    def _signed_in(self, scope: Scope, headers: Headers, cookie: str, sessions: Sessions) -> Caller:
        """Authenticate a browser's session.

        A browser sends the cookie with every request, also with one that another site caused, so a change
        needs the form's value as well.
        """
        _check_maker(headers)
        session = sessions.read(cookie)
        if scope["method"] not in SAFE:
            _check_form(scope, headers, session)
        verify = lambda: sessions.read(cookie).user  # noqa: E731 - read at each call
        return Caller(user=session.user, token=session.token, verify=verify, form=session.form)


def _check_maker(headers: Headers) -> None:
    """Browsers say whether a page of ours made the request (Sec-Fetch-Site). Cookies know no ports: pages of
    other ports of this host, such as notebooks, count as the same site, and bring the cookie along."""
    ours = headers.get("sec-fetch-site", "none") in ("same-origin", "none")
    if not ours and headers.get("sec-fetch-mode") != "navigate":
        raise Refusal(403, "wrong_origin", "Requests made by pages of other origins are refused.")


def _check_form(scope: Scope, headers: Headers, session: Session) -> None:
    """Signing out works without a script: its page checks a field instead of the header."""
    proved = scope["path"] == SIGN_OUT or same(headers.get(FORM, ""), session.form)
    if "origin" not in headers or not proved:
        message = f"A change by a browser needs the header {FORM} and an Origin. Load the page again."
        raise Refusal(403, "wrong_form", message)


def cookie_in(headers: Headers) -> str:
    """Return the session that a browser sent; "" if none, or if there are two: one of them was then set by
    another port of this host, whose cookies come here too, and it is unknown which.
    """
    sent = [one.strip().partition("=") for one in "; ".join(headers.getlist("cookie")).split(";")]
    found = {value.strip() for name, _, value in sent if name.strip() == COOKIE}
    return found.pop() if len(found) == 1 else ""


class _Hardened:
    """`send` that adds the security headers to the answer, and records whether the answer has started."""

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
    """Return the name in a Host header, without its port, in lower case; IPv6 addresses keep their brackets.

    A header that is no name with a port is returned whole: it matches no name.
    """
    host = host.lower()
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host
    return name if not port or port.isdecimal() else host
