"""Access of a browser to one development session: its address, a code that opens it, and the cookie.

The cookie is like the dashboard's (`browser_sessions`): a token's digest, the session's id and an end, sealed
by the server's key; never a token. It is sealed for another purpose, so neither can replace the other. It
becomes invalid with its token, and opens one session only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import ID_ALPHABET, JobId
from grus.model.interfaces import User
from grus.server.http.one_time_codes import Codes
from grus.server.http.session_cookies import same, sealed

NAME = "grus_dev_"
LASTS = 86400.0
"""Seconds from opening a session to opening it again."""
AGAIN = "Run `grus dev {job}`, or open it from its page in the dashboard."
ID_LENGTH = 11
USUAL = {"http": 80, "https": 443}
"""Ports that browsers leave out."""


@dataclass(frozen=True, slots=True)
class Origins:
    """Under which address browsers reach each session: an origin of its own for each, where names allow."""

    scheme: str
    host: str
    """A name; with `*.` in front the session's id stands in the star's place."""
    port: int

    def host_of(self, job: JobId) -> str:
        """Return the host in the form of a request's Host header."""
        name = f"{job}{self.host[1:]}" if self.host.startswith("*.") else self.host
        return name if self.port == USUAL[self.scheme] else f"{name}:{self.port}"

    def of(self, job: JobId) -> str:
        return f"{self.scheme}://{self.host_of(job)}"


def base(job: JobId) -> str:
    """Return the common beginning of a session's paths."""
    return f"/dev/{job}/"


def job_in(path: str) -> JobId | None:
    """Return the job of this path; None for a path of no session."""
    first, _, rest = path.removeprefix("/dev/").partition("/")
    if not path.startswith("/dev/") or len(first) != ID_LENGTH or first[0] != "j":
        return None
    return JobId(first) if set(first[1:]) <= set(ID_ALPHABET) and path == base(JobId(first)) + rest else None


class OneTimeLinks:
    """Makes addresses that open a session once, for a user who has shown a token."""

    def __init__(self, origins: Origins, clock: Callable[[], float]) -> None:
        self.origins = origins
        self._codes = Codes(clock, "Run `grus dev JOB` again, or open the session from the dashboard.")

    def address(self, job: JobId, digest: str) -> str:
        """Return the address for a browser; the code behind the # reaches no log."""
        return f"{self.origins.of(job)}{base(job)}open#code={self._codes.make(f'{digest} {job}')}"

    def spend(self, job: JobId, code: str) -> str:
        """The digest of the token that the code was made with. Raises NotLoggedIn."""
        digest, _, meant = self._codes.spend(code).partition(" ")
        if meant != job:
            raise NotLoggedIn(f"This address opens another session. {AGAIN.format(job=job)}")
        return digest


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who was let in once."""

    user: User
    token: str
    """The digest of the token that it was opened with."""


class DevSessions:
    """Writes and reads the cookies; `holder` says whose token has a digest, for as long as it holds."""

    def __init__(self, key: bytes, holder: Callable[[str], User], clock: Callable[[], float]) -> None:
        self._key = key
        self._holder = holder
        self._clock = clock

    def cookie(self, job: JobId, digest: str) -> str:
        """Raises NotLoggedIn."""
        self._holder(digest)
        body = f"{digest}.{job}.{int(self._clock() + LASTS)}"
        return f"{body}.{sealed(self._key, 'dev', body)}"

    def read(self, job: JobId, cookie: str) -> Visitor:
        """Raises NotLoggedIn for one that is not ours or not for this job, or whose token was taken back."""
        body, _, mac = cookie.rpartition(".")
        if not same(mac, sealed(self._key, "dev", body)):
            raise NotLoggedIn(f"This session is not open in this browser. {AGAIN.format(job=job)}")
        digest, meant, end = body.split(".")
        if meant != job or self._clock() >= float(end):
            raise NotLoggedIn(f"What let you in has ended. {AGAIN.format(job=job)}")
        return Visitor(self._holder(digest), digest)
