"""API side of development sessions: the address that opens one, and the notices shown inside it."""

import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.api.wire_types.dev_session import SessionOut
from grus.controlplane.facade.services import Services
from grus.model.errors import Conflict
from grus.model.identifiers import JobId
from grus.server.http.dependencies import Does, JobPath, WhoExactly, answer, off_loop
from grus.server.session_proxy.cookie_auth import DevGate, SessionAccess
from grus.server.session_proxy.proxy import DevProxy
from grus.server.session_proxy.session_access import DevSessions, OneTimeLinks

router = APIRouter(prefix="/v1", tags=["jobs"])

NOTICES = frozenset({"idle", "busy", "limit"})
"""Kinds of events that people at work in a session should see."""
PAGE = 1000


@router.post("/jobs/{id}/session", status_code=201, response_model=SessionOut)
async def open_session(id: JobPath, caller: WhoExactly, does: Does, request: Request) -> Response:
    """An address that opens a development session once, within a minute, for its owner."""
    found = await off_loop(does.outputs.session, caller.user, JobId(id))
    doorway: OneTimeLinks | None = request.app.state.doorway
    if doorway is None:
        raise Conflict("this server opens no sessions: they need a pool on the server's own machine")
    if not found:
        raise Conflict(f"session {id} is not ready: `grus why {id}` and `grus logs {id}` say how it is")
    url = doorway.address(JobId(id), caller.token)
    return answer(SessionOut(url=url, origin=doorway.origins.of(JobId(id))), 201)


def dev_app(
    services: Services, doorway: OneTimeLinks, key: bytes, clock: Callable[[], float] = time.time
) -> DevProxy:
    """The app for the sessions' own port."""
    sessions = DevSessions(key, services.accounts.holder, clock)
    return DevProxy(DevGate(services, sessions, doorway), lambda passage: notice(services, passage))


def notice(services: Services, passage: SessionAccess) -> dict[str, Any]:
    """Return the last notice for people in the session; empty if there is none."""
    events = services.jobs.events(passage.user, job=passage.job, limit=PAGE)
    told = [event for event in events if event.kind in NOTICES]
    return {"seq": told[-1].seq, "kind": told[-1].kind, "text": told[-1].text} if told else {}
