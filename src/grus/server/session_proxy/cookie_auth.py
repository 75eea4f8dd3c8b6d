"""Gate of development sessions. A session receives only requests that its owner's browser has made.

It checks in order. The path names a session. The Host is that session's own (DNS rebinding). The Origin, if
any, is it too, and must be present for every request that may change something (requests forged by other
pages, other sessions' among them). The cookie was made for this session and its token is still valid. Then
the services say whether this user may use it. The check is repeated while a connection lasts.
"""

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from grus.controlplane.facade.services import Services
from grus.controlplane.workers.endpoints import Endpoint
from grus.model.errors import Conflict
from grus.model.identifiers import JobId
from grus.model.interfaces import User
from grus.server.http.dependencies import off_loop
from grus.server.http.errors import Refusal
from grus.server.session_proxy.headers import cookies_in
from grus.server.session_proxy.session_access import NAME, DevSessions, OneTimeLinks, job_in

SAFE = frozenset({"GET", "HEAD"})
OWN = frozenset({"same-origin", "none"})
"""Accepted makers of a request, in a browser's words (Sec-Fetch-Site): our own page, or a person."""


@dataclass(frozen=True, slots=True)
class SessionAccess:
    """A way that is open: who goes it, and where to."""

    job: JobId
    user: User
    endpoint: Endpoint


class DevGate:
    """Stateless but for the doorway's codes."""

    def __init__(self, services: Services, sessions: DevSessions, doorway: OneTimeLinks) -> None:
        self._services = services
        self._sessions = sessions
        self._doorway = doorway

    def place(self, scope: Scope) -> JobId:
        """The session that a request is meant for. Raises Refusal if it does not come from where it may."""
        headers = Headers(scope=scope)
        job = job_in(scope["path"])
        if job is None:
            raise Refusal(404, "not_found", "Here are only development sessions: `grus dev` opens one.")
        if [host.lower() for host in headers.getlist("host")] != [self._doorway.origins.host_of(job)]:
            raise Refusal(421, "wrong_host", f"Session {job} does not answer to this name.")
        origin = headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE
        if (origin is None and changes) or (origin or self.origin(job)).lower() != self.origin(job):
            raise Refusal(403, "wrong_origin", "Only the session's own pages may do this.")
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
        if site not in OWN and mode != "navigate":
            raise Refusal(403, "wrong_origin", "Only the session's own pages may load this.")
        return job

    def origin(self, job: JobId) -> str:
        return self._doorway.origins.of(job)

    def enter(self, job: JobId, code: str) -> str:
        """Return the cookie for the holder of this code. Raises NotLoggedIn."""
        return self._sessions.cookie(job, self._doorway.spend(job, code))

    async def passage(self, scope: Scope, job: JobId) -> SessionAccess:
        """Return the visitor's passage to the session.

        Raises NotLoggedIn, NotFound, NotAllowed, or Conflict while no session answers there.
        """
        cookie = cookie_parser(cookies_in(scope["headers"])).get(f"{NAME}{job}", "")
        visitor = self._sessions.read(job, cookie)
        return await off_loop(self._found, job, visitor.user)

    def _found(self, job: JobId, user: User) -> SessionAccess:
        (endpoint, *_) = self._services.outputs.session(user, job) or (None,)
        if endpoint is None:
            raise Conflict(f"Session {job} does not answer now: `grus describe {job}` says how it is.")
        return SessionAccess(job, user, endpoint)
