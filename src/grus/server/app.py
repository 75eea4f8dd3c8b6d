"""The web app: every route behind one gate. It holds no state of its own except the open streams.

Without a token only /healthz answers; the OpenAPI description needs one, too. The process that has pages
mounts them; then a browser may sign in and use a session instead.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from grus import __version__
from grus.controlplane.facade.services import Services
from grus.controlplane.reconciler.health import ControlLoopHealth
from grus.model.errors import GrusError
from grus.server.http.auth_middleware import PUBLIC, Gate
from grus.server.http.body_limits import LARGEST_BODY, SLOWEST_BODY, Bodies
from grus.server.http.errors import (
    ERROR,
    ERROR_ANSWER,
    Refusal,
    on_grus_error,
    on_http,
    on_refusal,
    on_validation,
)
from grus.server.http.event_streams import Streams
from grus.server.http.inference_proxy import Forwarder
from grus.server.http.rate_limit import RateLimit
from grus.server.http.session_cookies import KEY_BYTES, Sessions
from grus.server.routes import (
    artifacts,
    dev_sessions,
    events,
    forecasts,
    jobs,
    metrics,
    nodes,
    notifications,
    predictions,
    profiles,
    queues,
    reports,
    runs,
    sweeps,
    telemetry,
    users,
    workflows,
)
from grus.server.routes import secrets as secret_routes
from grus.server.runtime.health import ServerHealth
from grus.server.runtime.server_metrics import Figures
from grus.server.session_proxy.session_access import OneTimeLinks

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
STREAM = "text/event-stream"
Mount = Callable[[FastAPI], None]
"""Adds pages to the app."""


def create_app(
    services: Services,
    *,
    pulse: ControlLoopHealth,
    allowed_hosts: Iterable[str] = LOCAL_HOSTS,
    allowed_origins: Iterable[str] = (),
    requests_per_second: float = 2000.0,
    largest_body: int = LARGEST_BODY,
    slowest_body: float = SLOWEST_BODY,
    streams: Streams | None = None,
    figures: Figures | None = None,
    mount: Mount | None = None,
    session_key: bytes | None = None,
    doorway: OneTimeLinks | None = None,
    clock: Callable[[], float] = time.time,
    gone: Callable[[], str] = lambda: "",
) -> FastAPI:
    """Create the app around these services. Everything mounted into it has the same gate in front.

    `gone` says why the record is not there any more, "" while it is. Without a `session_key` browsers sign in
    again after a restart; without a `doorway` development sessions cannot be opened.
    """
    app = FastAPI(
        title="Grus",
        version=__version__,
        summary="One pool out of a team's GPUs.",
        lifespan=_lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # served below, behind the gate like everything
        redirect_slashes=False,
    )
    app.state.services = services
    app.state.streams = streams or Streams()
    app.state.figures = figures or Figures()
    app.state.health = ServerHealth(pulse, gone=gone)
    app.state.doorway = doorway
    _add_routes(app)
    _add_error_forms(app)
    app.state.sessions = None
    if mount is not None:
        key = session_key or secrets.token_bytes(KEY_BYTES)
        app.state.sessions = Sessions(key, services.accounts.holder, clock)
        mount(app)
    # The one added last stands outermost.
    app.add_middleware(Bodies, largest=largest_body, slowest=slowest_body)
    limit = RateLimit(requests_per_second, burst=2 * requests_per_second)
    app.add_middleware(
        Gate,
        whoami=services.accounts.whoami,
        hosts=allowed_hosts,
        origins=allowed_origins,
        limit=limit,
        sessions=app.state.sessions,
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Notify streams of commits for as long as the app runs."""
    streams: Streams = app.state.streams
    streams.attach()
    leave = app.state.services.subscribe(lambda _: streams.poke())
    watching = asyncio.create_task(app.state.health.watch())
    app.state.forwarder = Forwarder()
    try:
        yield
    finally:
        await app.state.forwarder.close()
        watching.cancel()
        leave()
        streams.close()


def _add_routes(app: FastAPI) -> None:
    # Side by side, not nested: routers inside routers are walked again at every request. Submits come first.
    parts = (
        jobs,
        predictions,
        workflows,
        dev_sessions,
        artifacts,
        events,
        queues,
        nodes,
        users,
        secret_routes,
        notifications,
        telemetry,
        forecasts,
        profiles,
        runs,
        sweeps,
        reports,
        metrics,
    )
    for part in parts:
        app.router.routes.extend(part.router.routes)

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def description() -> Response:
        return JSONResponse(_described(app))


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description; it says that a token is needed and how errors look, which is the gate's doing
    and that of `errors`."""
    found = app.openapi()
    parts = found.setdefault("components", {})
    parts.setdefault("securitySchemes", {})["token"] = {"type": "http", "scheme": "bearer"}
    parts.setdefault("schemas", {})["Error"] = ERROR
    found["security"] = [{"token": []}]
    for path, verbs in found["paths"].items():
        for verb in verbs.values():
            verb["responses"].pop("422", None)  # the framework's own form, which nothing here has
            for told in verb["responses"].values():
                if STREAM in told.get("content", {}):
                    told["content"][STREAM] = {}  # many small texts, not the one that the framework describes
            verb["responses"]["default"] = ERROR_ANSWER
            if path in PUBLIC:
                verb["security"] = []
    for unused in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(unused, None)
    return found


def _add_error_forms(app: FastAPI) -> None:
    app.add_exception_handler(GrusError, on_grus_error)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Refusal, on_refusal)
