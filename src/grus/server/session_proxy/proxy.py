"""The way into development sessions: an app on a port of its own, which forwards to whom the gate has let in.

It is apart from everything else: another origin (where names allow, one for each session), another cookie,
nothing of the API or the pages. What a script in a notebook may do, it may do to that notebook's session and
to nothing else. Requests and answers pass piece by piece, each side waiting for the other; while they last,
it is asked again and again whether their visitor may still be here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from websockets.exceptions import WebSocketException

from grus.model.errors import GrusError, NotLoggedIn, Unreachable
from grus.model.identifiers import JobId
from grus.server.http.dependencies import off_loop
from grus.server.http.errors import Refusal, of_grus_error, of_surprise
from grus.server.session_proxy import headers as dev_headers
from grus.server.session_proxy import websockets
from grus.server.session_proxy.cookie_auth import DevGate, SessionAccess
from grus.server.session_proxy.login_page import OPEN, entered, opening_page, shut_out
from grus.server.session_proxy.session_access import base

LARGEST_BODY = 256 << 20
"""Bytes that one request may send; they are never held here."""
SLOWEST_PIECE = 30.0
"""Seconds between two pieces of a body."""
MOST_SOCKETS = 128
"""Web sockets of one session at a time."""
TIMES = httpx2.Timeout(5.0, read=300.0, write=30.0, pool=5.0)
CONNECTIONS = httpx2.Limits(max_connections=500, max_keepalive_connections=50)
RECHECK = 10.0
"""Seconds between two looks at whether a visitor may still be here."""
REFUSED = 1008
"""A web socket is closed for a reason of ours (RFC 6455, 7.4.1)."""
NOTICE = "grus/notice"
"""Path that JupyterLab polls from time to time: the last notice of Grus to this session."""
Notices = Callable[[SessionAccess], dict[str, Any]]


class DevProxy:
    """An ASGI app. Keeps nothing but what is on its way, and which cookies are each session's own."""

    def __init__(self, gate: DevGate, notices: Notices, *, recheck: float = RECHECK) -> None:
        self._gate = gate
        self._notices = notices
        self._recheck = recheck
        self._cookies: dict[JobId, set[str]] = {}
        self._sockets: dict[JobId, int] = {}
        # Proxies of the environment are for other hosts, not for this machine.
        self._http = httpx2.AsyncClient(timeout=TIMES, limits=CONNECTIONS, trust_env=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._http.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    # --------------------------------------------------------------------------------------- requests

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        begun = _ResponseStart(send)
        try:
            answer = await self._answer(request, begun)
        except Refusal as refusal:
            answer = refusal.response()
        except ClientDisconnect:  # in the middle of its body: there is no client to answer
            answer = None
        except NotLoggedIn as error:
            answer = shut_out(request, error)
        except GrusError as error:
            answer = of_grus_error(error)
        except httpx2.TransportError as error:
            answer = of_grus_error(Unreachable(f"The session did not answer ({type(error).__name__})."))
        except Exception as error:  # noqa: BLE001 - the edge of a request: the cause is logged, a 500 goes out
            answer = of_surprise(error, f"{scope['method']} {scope['path']} of a session")
        if answer is not None and not begun.started:
            await answer(scope, receive, send)

    async def _answer(self, request: Request, send: "_ResponseStart") -> Response | None:
        """Our own answer; None when the session has answered."""
        job = self._gate.place(request.scope)
        path = request.url.path.removeprefix(base(job))
        if path == OPEN:
            return opening_page() if request.method == "GET" else await entered(request, self._gate, job)
        passage = await self._gate.passage(request.scope, job)
        if path == NOTICE:
            return JSONResponse(await off_loop(self._notices, passage), headers={"Cache-Control": "no-store"})
        await self._while_allowed(request.scope, passage, self._forward(request, passage, send))
        return None

    async def _forward(self, request: Request, passage: SessionAccess, send: "_ResponseStart") -> None:
        known = self._cookies.setdefault(passage.job, {"_xsrf"})
        address = passage.endpoint.address
        headers = dev_headers.towards(request.scope["headers"], address, passage.endpoint.secret, known)
        query = request.scope["query_string"]
        raw = request.scope["raw_path"] + (b"?" + query if query else b"")
        host, _, port = address.rpartition(":")
        url = httpx2.URL(scheme="http", host=host, port=int(port), raw_path=raw)
        content = _body(request) if _has_body(request.headers) else None
        onward = self._http.build_request(request.method, url, headers=headers, content=content)
        answer = await self._http.send(onward, stream=True)
        try:
            await self._send_back(answer, passage, known, send)
        finally:
            await answer.aclose()

    async def _send_back(
        self, answer: httpx2.Response, passage: SessionAccess, known: set[str], send: "_ResponseStart"
    ) -> None:
        raw = [(name.lower(), value) for name, value in answer.headers.raw]
        names = {name for name, _ in dev_headers.set_cookies(raw, passage.job)}
        if len(known | names) <= dev_headers.MOST_COOKIES:
            known |= names
        origin = self._gate.origin(passage.job)
        headers = dev_headers.back(raw, passage.job, passage.endpoint.address, origin)
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    # ------------------------------------------------------------------------------------ web sockets

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            job = self._gate.place(scope)
            passage = await self._gate.passage(scope, job)
        except (Refusal, GrusError):
            await send({"type": "websocket.close", "code": REFUSED})
            return
        if self._sockets.get(job, 0) >= MOST_SOCKETS:
            await send({"type": "websocket.close", "code": REFUSED})
            return
        self._sockets[job] = self._sockets.get(job, 0) + 1
        try:
            await self._joined(scope, passage, receive, send)
        finally:
            self._sockets[job] -= 1

    async def _joined(self, scope: Scope, passage: SessionAccess, receive: Receive, send: Send) -> None:
        known = self._cookies.get(passage.job, set())
        endpoint = passage.endpoint
        headers = dev_headers.towards(scope["headers"], endpoint.address, endpoint.secret, known)
        try:
            async with websockets.joined(passage, scope, headers) as session:
                await receive()  # the browser's wish to connect
                await send({"type": "websocket.accept", "subprotocol": session.subprotocol})
                relayed = websockets.relay(session, receive, send)
                if not await self._while_allowed(scope, passage, relayed):
                    await send({"type": "websocket.close", "code": REFUSED, "reason": "no longer allowed"})
        except (WebSocketException, OSError, TimeoutError):
            await send({"type": "websocket.close", "code": REFUSED})

    # -------------------------------------------------------------------------------------- together

    async def _while_allowed(
        self, scope: Scope, passage: SessionAccess, work: Coroutine[Any, Any, None]
    ) -> bool:
        """Do it, but not for longer than the visitor may be here and the session is the same; whether it was
        done. Raises what the work raises."""
        working = asyncio.create_task(work)
        try:
            while not working.done():
                await asyncio.wait({working}, timeout=self._recheck)
                if not working.done() and not await self._still(scope, passage):
                    return False
            await working
            return True
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _still(self, scope: Scope, passage: SessionAccess) -> bool:
        try:
            return (await self._gate.passage(scope, passage.job)).endpoint.worker == passage.endpoint.worker
        except GrusError:
            return False


class _ResponseStart:
    """`send` that records whether the answer has started."""

    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Any) -> None:
        self.started = True
        await self._send(message)


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def _body(request: Request) -> AsyncIterator[bytes]:
    """Yield the browser's body as it arrives; never too much and never too slowly."""
    size = 0
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(SLOWEST_PIECE):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refusal(408, "too_slow", f"The body paused for {SLOWEST_PIECE:g} s.") from None
        size += len(piece)
        if size > LARGEST_BODY:
            raise Refusal(413, "too_large", f"A body may have at most {LARGEST_BODY} bytes.")
        if piece:
            yield piece
