"""Sessions of browsers: a cookie in place of a token, and a check that a request comes from our own page.

The cookie holds the token's digest, the moment it ends and an HMAC over both; never the token. The server
stores nothing for it: it recognizes its own HMAC by its key, so a session survives a restart, and ends with
its token. A page carries a second HMAC, over the cookie, which no page of another site can know; every
request that changes something must send it back. Pure but for the key's file, which is read once.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grus.model.errors import NotLoggedIn
from grus.model.interfaces import User
from grus.store.durable_files import write_secret

COOKIE = "grus_session"
FORM = "Grus-Form"
"""The header with the form's HMAC."""
LASTS = 7 * 86400.0
"""Seconds from signing in to signing in again."""
KEY_BYTES = 32
AGAIN = "Sign in again."


@dataclass(frozen=True, slots=True)
class Session:
    """The signed-in user, and the HMAC by which a request is recognized as from a page made for this user."""

    user: User
    token: str
    """The digest of the token that it was opened with."""
    form: str


class Sessions:
    """Opens and reads sessions; `holder` says whose token has a digest, for as long as it holds."""

    def __init__(self, key: bytes, holder: Callable[[str], User], clock: Callable[[], float]) -> None:
        self._key = key
        self._holder = holder
        self._clock = clock

    def cookie(self, digest: str) -> str:
        """A session for the token with that digest. Raises NotLoggedIn."""
        self._holder(digest)
        body = f"{digest}.{int(self._clock() + LASTS)}"
        return f"{body}.{self._mac('session', body)}"

    def read(self, cookie: str) -> Session:
        """Raises NotLoggedIn for one that is not ours, has ended, or whose token was taken back."""
        body, _, mac = cookie.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac("session", body).encode()):
            raise NotLoggedIn(f"This session is not known here. {AGAIN}")
        digest, _, end = body.partition(".")
        if self._clock() >= float(end):
            raise NotLoggedIn(f"This session has ended. {AGAIN}")
        return Session(self._holder(digest), digest, self._mac("form", cookie))

    def _mac(self, purpose: str, text: str) -> str:
        return sealed(self._key, purpose, text)


def sealed(key: bytes, purpose: str, text: str) -> str:
    """Return an HMAC that shows that the server itself wrote this text, and for which purpose."""
    return hmac.new(key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Return whether two HMACs are equal, in a time that reveals nothing about either."""
    return hmac.compare_digest(one.encode(), other.encode())


def key_in(file: Path) -> bytes:
    """The server's key: as it was kept, or a new one in a file that only its owner reads."""
    try:
        kept = file.read_bytes()
    except FileNotFoundError:
        kept = b""
    if len(kept) == KEY_BYTES:
        return kept
    made = secrets.token_bytes(KEY_BYTES)
    write_secret(file, made)  # were only its length on the disk, anybody could seal
    return made
