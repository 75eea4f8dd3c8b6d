"""Development session: JupyterLab, or a shell, for as long as its owner wants it.

    python3 -m grus.interactive.session lab [PYTHON]
    python3 -m grus.interactive.session shell

PYTHON is the interpreter that has JupyterLab; by default the one that runs this program. A server runs it
with an interpreter and source of its own: the environment of the user needs no Grus.

It listens on its own host alone. It makes a secret at its start and sends it only to Grus, in its report;
users come through the server, which authenticates them. It ends when they end it, or by SIGTERM.
"""

import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from grus.sdk import worker
from grus.sdk.sigterm import SignalFlag

KINDS = ("lab", "shell")
USAGE = f"usage: python3 -m grus.interactive.session {'|'.join(KINDS)} [PYTHON]"


@dataclass(frozen=True, slots=True)
class Seat:
    """Address of this session, and the secret that a request must carry."""

    job: str
    host: str
    secret: str = field(repr=False)

    @property
    def base(self) -> str:
        """Prefix of all its paths, as its server forwards them."""
        return f"/dev/{self.job}/"

    def opens(self, authorization: str) -> bool:
        """Return whether a request with this header is allowed."""
        return secrets.compare_digest(authorization.encode(), f"token {self.secret}".encode())


class SessionReporter:
    """Reports to Grus where the session listens, and when it was last used; only changes."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._told: dict[str, object] = {}

    def tell(self, port: int, used_at: float) -> None:
        place = {
            "address": f"{self._seat.host}:{port}",
            "secret": self._seat.secret,
            "used_at": round(used_at, 1),
        }
        if place == self._told:
            return
        first, self._told = not self._told, place
        worker.tell(endpoint=place)
        if first:
            worker.ring()


class Relay:
    """Relay of reports from programs inside the session: only the last line of a worker's report counts, and
    that line must always contain the session's address.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "report"
        self._said = ""

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for the programs inside."""
        kept = {name: value for name, value in own.items() if name != "GRUS_BELL"}
        return {**kept, "GRUS_REPORT": str(self._file)}

    def pass_on(self) -> None:
        with suppress(OSError, ValueError, IndexError):
            line = self._file.read_text().splitlines()[-1]
            if line != self._said:
                self._said = line
                figures = json.loads(line).get("figures", {})
                worker.report(**{name: float(value) for name, value in figures.items()})


class Ending:
    """Event that is set when the session was asked to end."""

    def __init__(self) -> None:
        self.asked = SignalFlag()
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the shape of a handler
        self.asked.set()


def a_seat() -> Seat:
    """Return the session's address for this job; outside Grus, for one on this machine."""
    return Seat(
        os.environ.get("GRUS_JOB", "here"),
        os.environ.get("GRUS_HOST", "127.0.0.1"),
        secrets.token_urlsafe(32),
    )


def main(kind: str = "", python: str = sys.executable) -> int:
    if kind not in KINDS:
        print(USAGE, file=sys.stderr)  # noqa: T201 - the job's own log
        return 2
    os.umask(0o077)
    if kind == "shell":
        from grus.interactive import shell

        return shell.run(a_seat())
    from grus.interactive import lab

    return lab.run(a_seat(), Ending(), python)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
