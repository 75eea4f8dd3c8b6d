"""The server as a process of its own: started in the background, awaited, asked to end.

Only a process that wrote its own server.json in our state folder is ever signalled, and by its id.
"""

import contextlib
import http.client
import os
import select
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from grus.model.errors import Conflict, GrusError
from grus.sdk.places import Places, Running, running
from grus.server.lock import is_held_by

PATIENCE = 30.0
"""Seconds within which a server must answer after its start, or end after being asked to."""
POLL = 0.05


class DidNotStart(GrusError):
    """The server ended before it answered; the text is what it said."""

    def __init__(self, said: str, code: int) -> None:
        super().__init__(said or "The server ended at once and did not say why.")
        self.exit = code if code > 0 else 1


def alive(pid: int) -> bool:
    """Whether there is a process of that id (a zombie is not one)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state != "Z"


def is_running(at: Places) -> Running | None:
    """The server of this state folder, if its process lives.

    After a server's sudden death its server.json still stands, and its pid may by now be somebody else's:
    only who holds the state's lock is the server.
    """
    server = running(at)
    if server is None or not alive(server.pid) or not is_held_by(at.lock_file, server.pid):
        return None
    return server


def start(at: Places, arguments: Sequence[str], waiting: Callable[[], None] = lambda: None) -> Running:
    """Start the server in a session of its own and wait until it answers.

    Its log is in the state folder; what it says before it has one (or outside it) goes to `start.log` there.
    """
    at.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    said = at.state / "start.log"
    said.unlink(missing_ok=True)
    with open(said, "ab", opener=_private) as log:
        command = [sys.executable, "-m", "grus.cli.main", "up", "--foreground", *arguments]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        server = running(at)
        if server is not None and server.pid == child.pid and answers(server.address):
            os.truncate(said, 0)  # from here on its log has everything
            return server
        waiting()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(POLL)
            raise DidNotStart(_tail(said), child.returncode)
    os.kill(child.pid, signal.SIGTERM)
    raise GrusError(f"The server did not answer within {PATIENCE:.0f} s; its log: {at.log_file}")


def answers(address: str) -> bool:
    """Whether a server at the address says that it is well; no secret is sent, so any certificate will do."""
    url = urlsplit(address)
    host, port = url.hostname or "127.0.0.1", url.port or (443 if url.scheme == "https" else 80)
    connection = (
        http.client.HTTPSConnection(host, port, timeout=2.0, context=_any_certificate())
        if url.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=2.0)
    )
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def stop(server: Running) -> None:
    """Ask the server to end and wait until it has. Its jobs go on."""
    try:
        end = os.pidfd_open(server.pid)
        os.kill(server.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise Conflict(
            f"The server (pid {server.pid}) belongs to somebody else; ask them to stop it."
        ) from None
    try:
        if not select.select([end], [], [], PATIENCE)[0]:
            raise GrusError(
                f"The server (pid {server.pid}) has not ended within {PATIENCE:.0f} s of being asked to."
            )
    finally:
        os.close(end)


def _tail(log: Path, lines: int = 12) -> str:
    text = log.read_text(errors="replace").strip()
    return "\n".join(text.splitlines()[-lines:]).removeprefix("error: ")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
