"""A shell as a session: behind its secret, there for who comes back, and gone when it is ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.server.process import eventually

JOB = "j0123456789"


class Session:
    """The program in a process of its own, as the engine starts it."""

    def __init__(self, folder: Path) -> None:
        self.report = folder / "report"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GRUS_")}
        own = {"GRUS_JOB": JOB, "GRUS_REPORT": str(self.report), "SHELL": "/bin/sh", "PS1": "$ "}
        command = [sys.executable, "-m", "grus.interactive.session", "shell"]
        # As below a server that was started with nohup.
        deaf = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *command]
        self.process = subprocess.Popen(deaf, env={**kept, **own}, cwd=folder)
        eventually(lambda: "endpoint" in self.said, "it says where it is")

    @property
    def said(self) -> dict[str, dict[str, object]]:
        lines = self.report.read_text().splitlines() if self.report.exists() else []
        return json.loads(lines[-1]) if lines else {}

    def connect(self, secret: str | None = None, path: str = "shell") -> ClientConnection:
        place = self.said["endpoint"]
        headers = {"Authorization": f"token {place['secret'] if secret is None else secret}"}
        address = f"ws://{place['address']}/dev/{JOB}/{path}"
        return connect(address, additional_headers=headers, proxy=None, legacy=True)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.wait(300)


def until(connection: ClientConnection, words: bytes) -> bytes:
    """What is shown, up to these words."""
    seen = b""
    while words not in seen:
        piece = connection.recv(timeout=300)
        assert isinstance(piece, bytes)
        seen += piece
    return seen


def test_only_who_has_the_secret_gets_in(session: Session) -> None:
    for secret, path, status in (("wrong", "shell", 403), ("", "shell", 403), (None, "other", 404)):
        with pytest.raises(InvalidStatus) as refused:
            session.connect(secret, path)
        assert refused.value.response.status_code == status


def test_who_comes_back_finds_the_shell_as_it_was(session: Session) -> None:
    with session.connect() as first:
        first.send(json.dumps({"rows": 33, "cols": 111}))
        first.send(b"kept=$((6*7)); stty size; echo first-$kept\n")
        assert b"33 111" in until(first, b"first-42")
    with session.connect() as second:
        until(second, b"first-42")
        second.send(b"echo second-$kept\n")
        until(second, b"second-42")


def test_what_a_program_in_it_reports_is_told_and_where_the_session_is_stays_known(session: Session) -> None:
    with session.connect() as connection:
        connection.send(f"{sys.executable} -c 'import grus; grus.report(step=7)'\n".encode())
        eventually(lambda: session.said.get("figures") == {"step": 7.0}, "the figure is passed on")
    assert "address" in session.said["endpoint"]


def test_the_session_ends_well_when_its_shell_does(session: Session) -> None:
    with session.connect() as connection:
        connection.send(b"exit 3\n")
        with pytest.raises(ConnectionClosed):
            until(connection, b"never shown")
    assert session.process.wait(300) == 0


def test_asked_to_end_it_hangs_up(session: Session) -> None:
    with session.connect() as connection:
        connection.send(b"echo ready-$((1+1))\n")
        until(connection, b"ready-2")
        session.process.send_signal(signal.SIGTERM)
        assert session.process.wait(300) == 0
