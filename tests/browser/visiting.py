"""What tests with a browser hold in their hands: the server, and the eyes on a page."""

import json
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.cli.real import RealGrus

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 120_000
"""Milliseconds that a page has for what a test waits for."""


@dataclass(frozen=True)
class Site:
    """A server: where it is, the administrator's token, and the command line that uses it."""

    grus: RealGrus
    address: str
    token: str

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        """A request to the API, as a program makes it."""
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=300) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def person(self, name: str, role: str = "member") -> str:
        """Makes that user; returns a token."""
        self.ask("PUT", f"/v1/users/{name}", {"role": role})
        return str(self.ask("POST", "/v1/tokens", {"user": name})["secret"])


@dataclass
class Watch:
    """Everything that a page did wrong; `allow` names a text that a test provokes on purpose."""

    address: str
    wrongs: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def allow(self, text: str) -> None:
        self.allowed.append(text)

    def over(self, page: Page) -> None:
        page.on("console", lambda message: self._note(f"console: {message.text}", message.type))
        page.on("pageerror", lambda error: self._note(f"error: {error}"))
        page.on("request", lambda request: self._look(request.url))

    def _look(self, url: str) -> None:
        if not url.startswith((self.address + "/", "data:", "blob:" + self.address)):
            self.wrongs.append(f"a request to another place: {url}")

    def _note(self, text: str, kind: str = "error") -> None:
        if kind in ("error", "warning"):
            self.wrongs.append(text)

    @property
    def found(self) -> list[str]:
        return [wrong for wrong in self.wrongs if not any(text in wrong for text in self.allowed)]


SignIn = Callable[..., None]
"""Signs the visitor in: with this token (the administrator's by default), then at this path."""


def signed_in(page: Page, site: Site, token: str = "", at: str = "/") -> None:
    """Sign the visitor in without the form, as the administrator if no token is given, and open `at`."""
    form: dict[str, str | float | bool] = {"token": token or site.token}
    answer = page.context.request.post(
        "/sign-in", form=form, headers={"Origin": site.address}, max_redirects=0
    )
    assert answer.status == 303, answer.text()
    page.goto(at)


def chromium() -> str | None:
    """Where the browser is."""
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def served(home: Path, pool: str) -> Iterator[Site]:
    """A server for as long as it is looked at."""
    grus = RealGrus(home)
    try:
        grus.up("--virtual", pool, "--port", "0")
        address = json.loads((home / "state" / "server.json").read_text())["address"]
        yield Site(grus, address, (home / "token").read_text().strip())
    finally:
        grus.down()
