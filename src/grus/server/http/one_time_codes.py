"""Codes that open a session once, within a minute.

So `grus dashboard` and `grus dev` open a browser that is signed in, without a token in any address. Kept in
memory.
"""

import secrets
import threading
from collections.abc import Callable

from grus.controlplane.security.user_tokens import digest_of
from grus.model.errors import NotLoggedIn

LASTS = 60.0
"""Seconds."""
MOST = 1000
"""Codes that wait to be used; the oldest go first."""
SPENT = "This address was used before or is older than a minute. "


class Codes:
    """Codes that can be spent once. For any thread; `advice` is the hint for users with an invalid code."""

    def __init__(self, clock: Callable[[], float], advice: str) -> None:
        self._clock = clock
        self._advice = advice
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[str, float]] = {}
        """Meaning of each code (never a token itself), and its end, by the digest of the code."""

    def make(self, meant: str) -> str:
        """Make a code for the token with that digest, or for another meaning."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._waiting) >= MOST:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[digest_of(code)] = (meant, self._clock() + LASTS)
        return code

    def spend(self, code: str) -> str:
        """Return the code's meaning. Raises NotLoggedIn if it has none."""
        with self._lock:
            meant, end = self._waiting.pop(digest_of(code), ("", 0.0))
        if self._clock() >= end:
            raise NotLoggedIn(SPENT + self._advice)
        return meant
