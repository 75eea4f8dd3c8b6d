"""Client side of the launcher: start it, pass it requests, read its answers."""

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grus
from grus.model.identifiers import WorkerId

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from grus.engines.local.forkserver import main; main(sys.argv[2], sys.argv[3])"
)
_PATIENCE = 5.0
"""Seconds that a launcher gets to finish what it was given when the engine closes."""


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """Outcome of one request: forked, exists, fenced or failed."""

    worker: WorkerId
    outcome: str
    pid: int = 0
    start: int = 0
    text: str = ""


class Launcher:
    """One launcher process. `send` may be called by one thread at a time, `receive` by another."""

    def __init__(self, state: Path, stage: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        source = Path(grus.__file__).resolve().parent.parent
        with theirs, open(state / "launcher.log", "ab") as errors:
            # Without site-packages and without the server's environment: small, quick, and no secrets inside.
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-X",
                    "utf8",
                    "-c",
                    _PROGRAM,
                    str(source),
                    str(state),
                    str(stage),
                ],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._socket = ours
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, worker: WorkerId, spec: bytes, secrets: bytes = b"") -> None:
        """Request a start. A launcher that has died is noticed by `receive`, not here."""
        header = b"%s %d %d\n" % (worker.encode(), len(spec), len(secrets))
        try:
            self._socket.sendall(header + spec + secrets)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self) -> list[LaunchResult] | None:
        """Answers that are there (call it when readable); None when the launcher has died."""
        try:
            data = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [_parse(line) for line in lines]

    def close(self) -> None:
        """Let it finish its requests, then wait for its end."""
        with suppress(OSError):  # it died before
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.kill(self._process.pid, 9)
            self._process.wait()
        self._socket.close()


def _parse(line: bytes) -> LaunchResult:
    found = json.loads(line)
    return LaunchResult(
        worker=WorkerId(found["id"]),
        outcome=found["outcome"],
        pid=found.get("pid", 0),
        start=found.get("start", 0),
        text=found.get("text", ""),
    )
