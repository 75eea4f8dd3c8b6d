"""Development sessions for tests with a browser: submitted as their owner does, and waited for."""

import os
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import grus
from tests.browser.visiting import Site
from tests.server.process import eventually

LAB = ("python3", "-m", "grus.interactive.session", "lab")
PRETENDED = ("python3", str(Path(__file__).parent / "programs" / "pretend_session.py"))
PATIENCE = 240.0


@dataclass(frozen=True)
class Session:
    """A session that is ready, and the token of its owner."""

    site: Site
    job: str
    token: str

    def address(self) -> str:
        """Opens it once."""
        return str(self.site.ask("POST", f"/v1/jobs/{self.job}/session", token=self.token)["url"])

    @property
    def origin(self) -> str:
        parts = urlsplit(self.address())
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def base(self) -> str:
        return f"{self.origin}/dev/{self.job}/"


@contextmanager
def a_session(site: Site, token: str, run: Sequence[str]) -> Iterator[Session]:
    """One that answers; stopped afterwards."""
    job = site.ask(
        "POST",
        "/v1/jobs",
        {
            "type": "dev",
            "name": "session",
            "run": list(run),
            "launch": "once",
            "resources": {"gpu": 0.25},
            "workdir": str(site.grus.work),
            "env": {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(Path(grus.__file__).parents[1]),
                "HOME": str(site.grus.home),
            },
        },
        token=token,
    )["id"]
    found = Session(site, job, token)
    eventually(lambda: _ready(found), "the session is ready", PATIENCE)
    yield found
    site.ask("POST", f"/v1/jobs/{job}/stop", token=token)


def _ready(session: Session) -> bool:
    try:
        session.address()
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it is about to be ready
            raise
        return False
    return True
