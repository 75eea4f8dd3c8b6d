"""The door of development sessions. Nothing reaches a session but what its owner's browser has asked for.

In order: the path names a session, the Host is that session's own (DNS rebinding), the Origin, if any, is it
too, and must be there for whatever may change something (requests forged by other pages, other sessions'
among them), and the cookie was made for this session and its token still holds. Then the services say whether
this user may use it. Asked again while a connection lasts.
"""

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from grus.controlplane.endpoints import Endpoint
from grus.controlplane.services import Services
from grus.model.errors import Conflict
from grus.model.identifiers import JobId
from grus.model.ports import User
from grus.server.dev_headers import cookies_in
from grus.server.dev_sessions import NAME, DevSessions, Doorway, job_in
from grus.server.edge import off_loop
from grus.server.errors import Refusal

SAFE = frozenset({"GET", "HEAD"})
OWN = frozenset({"same-origin", "none"})
"""Who may have made a request, in a browser's words (Sec-Fetch-Site): our own page, or a person."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A way that is open: who goes it, and where to."""

    job: JobId
    user: User
    endpoint: Endpoint


class DevGate:
    """Stateless but for the doorway's codes."""

    def __init__(self, services: Services, sessions: DevSessions, doorway: Doorway) -> None:
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
        """The cookie for whoever has this code. Raises NotLoggedIn."""
        return self._sessions.cookie(job, self._doorway.spend(job, code))

    async def passage(self, scope: Scope, job: JobId) -> Passage:
        """Raises NotLoggedIn, NotFound, NotAllowed, or Conflict while nobody answers there."""
        cookie = cookie_parser(cookies_in(scope["headers"])).get(f"{NAME}{job}", "")
        visitor = self._sessions.read(job, cookie)
        return await off_loop(self._found, job, visitor.user)

    def _found(self, job: JobId, user: User) -> Passage:
        (endpoint, *_) = self._services.session(user, job) or (None,)
        if endpoint is None:
            raise Conflict(f"Session {job} does not answer now: `grus describe {job}` says how it is.")
        return Passage(job, user, endpoint)
