"""The server as a process of its own: started in the background, awaited, asked to end.

Only a process that wrote its own server.json in our state folder is ever signalled, and by its id.
"""

import contextlib
import http.client
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from grus.model.errors import Conflict, GrusError
from grus.sdk.state_paths import GrusPaths, Running, running
from grus.sdk.tls_trust import pinned
from grus.server.runtime.lock import is_held_by
from grus.store.durable_files import make_state_folder

PATIENCE = 30.0
"""Seconds within which a server must answer after it has announced itself, or end after being asked to."""
LONGEST_START = 600.0
"""Seconds that a start is waited for: a large state on a slow disk takes long to open."""
POLL = 0.05
WARNING = "WARNING: "
"""Start of a line of the server that is a warning."""


class DidNotStart(GrusError):
    """The server ended before it answered; the text is what it said."""

    def __init__(self, said: str, code: int) -> None:
        super().__init__(said or "The server ended at once and did not say why.")
        self.exit = code if code > 0 else 1


def alive(pid: int) -> bool:
    """Return whether a process of that id exists (a zombie does not count)."""
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


def is_running(at: GrusPaths) -> Running | None:
    """The server of this state folder, if its process is alive.

    After a server's sudden death its server.json still exists, and its pid may belong to another process by
    now: only the process that holds the state's lock is the server.
    """
    server = running(at)
    if server is None or not alive(server.pid) or not is_held_by(at.lock_file, server.pid):
        return None
    return server


def starting(at: GrusPaths) -> Running | None:
    """A server that holds the state's lock and has not announced itself yet; it has no address."""
    try:
        pid = int(at.lock_file.read_text())
    except (OSError, ValueError):
        return None
    return Running("", pid, 0.0) if alive(pid) and is_held_by(at.lock_file, pid) else None


def start(
    at: GrusPaths,
    arguments: Sequence[str],
    waiting: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Running:
    """Start the server in a session of its own and wait until it answers; `warn` gets each of its warnings.

    A server that runs is never stopped here. Its log is in the state folder; what it says before it has one
    (or outside it) goes to `start.log` there.
    """
    make_state_folder(at.state)
    said = at.state / "start.log"
    said.unlink(missing_ok=True)
    with open(said, "ab", opener=_private) as log:
        command = [sys.executable, "-m", "grus.cli.main", "up", "--foreground", *arguments]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    deadline = time.monotonic() + LONGEST_START
    missing = "is still starting"
    while time.monotonic() < deadline:
        server = running(at)
        if server is not None and server.pid == child.pid:
            if not (why := trouble(server)):
                for text in warnings_in(said):
                    warn(text)
                os.truncate(said, 0)  # from here on its log has everything
                return server
            deadline = min(deadline, server.started_at - time.time() + time.monotonic() + PATIENCE)
            missing = f"does not answer at {server.reach} ({why})"
        waiting()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(POLL)
            raise DidNotStart(_tail(said), child.returncode)
    raise GrusError(f"The server (pid {child.pid}) {missing}. It was not stopped: see its log, {at.log_file}")


def trouble(server: Running) -> str:
    """Reason for no answer from the server; "" if any answer comes. No secret is sent."""
    url = urlsplit(server.reach)
    host, port = url.hostname or "127.0.0.1", url.port or (443 if url.scheme == "https" else 80)
    connection = (
        http.client.HTTPSConnection(host, port, timeout=2.0, context=pinned(server.certificate))
        if url.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=2.0)
    )
    try:
        connection.request("GET", "/healthz")
        connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
    return ""


def is_trusted(server: Running) -> bool:
    """True if this machine's authorities accept the server's certificate under its public name."""
    public, reach = urlsplit(server.address), urlsplit(server.reach)
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((reach.hostname or "", reach.port or 443), timeout=2.0) as plain,
            context.wrap_socket(plain, server_hostname=public.hostname),
        ):
            return True
    except OSError:
        return False


def stop(server: Running) -> None:
    """Ask the server to end and wait until it has ended. Its jobs continue."""
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


def warnings_in(said: Path) -> list[str]:
    """Warnings that the server printed before it answered."""
    lines = said.read_text(errors="replace").splitlines()
    return [line.removeprefix(WARNING) for line in lines if line.startswith(WARNING)]


def _tail(log: Path, lines: int = 12) -> str:
    text = log.read_text(errors="replace").strip()
    return "\n".join(text.splitlines()[-lines:]).removeprefix("error: ")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
