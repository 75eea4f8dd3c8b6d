"""Pages of exporters, fetched by threads of their own, so that no caller waits longer than it wants to.

A page that comes too late for one call is there for the next one, with its own time. While a request is under
way, no second one is sent.
"""

import threading
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2

MOST = 64 << 20
"""Bytes of a page that are read; a longer one is no answer."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Page(NamedTuple):
    """An answer, or why there is none."""

    at: float
    """Time of the request, by the caller's clock."""
    text: str = ""
    failure: str = ""


class Fetcher:
    """One address. Used by one thread; `close` may be called by another."""

    def __init__(
        self, url: str, *, patience: float, headers: Mapping[str, str] | None = None, most: int = MOST
    ) -> None:
        self.url = url
        self.name = urlsplit(url)._replace(netloc=_place(url)).geturl()
        """The address for people: without a password."""
        self._most = most
        host = urlsplit(url).hostname or ""
        # Proxies of the environment are for other hosts, not for this machine.
        self._http = httpx2.Client(
            timeout=patience, headers=dict(headers or {}), trust_env=host not in LOOPBACK
        )
        self._thread: threading.Thread | None = None
        self._page: Page | None = None
        self._closed = False

    def ask(self, now: float, params: Mapping[str, str] | None = None) -> None:
        """Begin to fetch it, unless that is under way already."""
        if self._thread is None and self._page is None and not self._closed:
            self._thread = threading.Thread(
                target=self._fetch, args=(now, dict(params or {})), name="grus-fetch", daemon=True
            )
            self._thread.start()

    def take(self, deadline: float) -> Page | None:
        """Return the page that arrived by then (monotonic time); None if there is none."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
            if self._thread.is_alive():
                return None
            self._thread = None
        page, self._page = self._page, None
        return page

    def close(self) -> None:
        """Idempotent. A page under way is given up."""
        self._closed = True
        self._http.close()
        if self._thread is not None:
            self._thread.join(1.0)

    def _fetch(self, now: float, params: Mapping[str, str]) -> None:
        try:
            self._page = self._get(now, params)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, RuntimeError, OSError) as error:
            # RuntimeError: the client was closed meanwhile.
            self._page = Page(now, failure=f"{type(error).__name__}: {error}".rstrip(": "))

    def _get(self, now: float, params: Mapping[str, str]) -> Page:
        with self._http.stream("GET", self.url, params=params or None) as response:
            found = bytearray()
            for chunk in response.iter_bytes():
                found += chunk
                if len(found) > self._most:
                    return Page(now, failure=f"the answer is longer than {self._most} bytes")
        text = found.decode(errors="replace")
        if not response.is_success:
            return Page(now, failure=f"HTTP {response.status_code}: {text.strip()[:200]}".rstrip(": "))
        return Page(now, text)


def _place(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def by(patience: float) -> float:
    """The monotonic moment until which somebody waits."""
    return time.monotonic() + patience
