"""Shell session: one terminal that outlives the connections to it, over a web socket.

Binary messages are keys and output; a text message `{"rows": 40, "cols": 120}` is the size of the window. A
later client sees the last output first. The session ends with the shell.
"""

import asyncio
import fcntl
import json
import os
import pty
import pwd
import signal
import struct
import tempfile
import termios
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn

from grus.interactive.session import Relay, Seat, SessionReporter
from grus.interactive.websocket import Connection, Refusal, Request, serving

KEPT = 256 << 10
"""Bytes of output that a later client is shown."""
PIECE = 64 << 10
UNREAD = 256
"""Pieces of output that wait for a slow reader; beyond, the connection is closed: the shell does not wait."""
LARGEST = 1 << 20
"""Bytes of one message."""
EVERY = 5.0


class Terminal:
    """The shell and all its viewers."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.used_at = time.time()
        self._pid, self._file = pty.fork()
        if self._pid == 0:
            _become_shell(dict(environment))
        os.set_blocking(self._file, False)
        self._output: deque[bytes] = deque()
        self._kept = 0
        self._readers: set[asyncio.Queue[bytes | None]] = set()
        self.over = asyncio.Event()

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._file, self._read)

    def reader(self) -> "asyncio.Queue[bytes | None]":
        """All output from now on, after the last of what was."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(UNREAD)
        queue.put_nowait(b"".join(self._output))
        self._readers.add(queue)
        return queue

    def leave(self, queue: "asyncio.Queue[bytes | None]") -> None:
        self._readers.discard(queue)

    async def write(self, keys: bytes) -> None:
        self.used_at = time.time()
        while keys and not self.over.is_set():
            try:
                keys = keys[os.write(self._file, keys) :]
            except BlockingIOError:
                await self._writable()
            except OSError:
                return

    def resize(self, text: str) -> None:
        with suppress(ValueError, KeyError, TypeError, struct.error, OSError):
            told = json.loads(text)
            size = struct.pack("HHHH", int(told["rows"]), int(told["cols"]), 0, 0)
            fcntl.ioctl(self._file, termios.TIOCSWINSZ, size)

    def hang_up(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGHUP)

    def reap(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._file, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._file)

    def _read(self) -> None:
        try:
            piece = os.read(self._file, PIECE)
        except BlockingIOError:
            return
        except OSError:  # EIO: no process has the other end open any more
            piece = b""
        if not piece:
            asyncio.get_running_loop().remove_reader(self._file)
            self.over.set()
        self.used_at = time.time()
        self._keep(piece)
        for queue in list(self._readers):
            if queue.full():
                self.leave(queue)
                queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(piece or None)

    def _keep(self, piece: bytes) -> None:
        self._output.append(piece)
        self._kept += len(piece)
        while self._kept > KEPT:
            self._kept -= len(self._output.popleft())


def _login_shell() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a user without a name, as in many containers
        return None


def _become_shell(environment: dict[str, str]) -> NoReturn:
    """Become the shell, in the child: only the process itself remains of this program."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and the shell would not hang up
    environment.setdefault("TERM", "xterm-256color")
    for name in (environment.get("SHELL"), _login_shell(), "/bin/sh"):
        with suppress(OSError):
            if name:
                os.execvpe(name, [name], environment)  # noqa: S606 - a shell is what was asked for
    os._exit(127)


async def _attach(terminal: Terminal, connection: Connection) -> None:
    queue = terminal.reader()
    sending = asyncio.create_task(_send(queue, connection))
    try:
        async for message in connection.messages():
            if isinstance(message, bytes):
                await terminal.write(message)
            else:
                terminal.resize(message)
    finally:
        terminal.leave(queue)
        sending.cancel()


async def _send(queue: "asyncio.Queue[bytes | None]", connection: Connection) -> None:
    with suppress(ConnectionError):
        while (piece := await queue.get()) is not None:
            await connection.send(piece)
        connection.close()


async def _session(seat: Seat, relay: Relay) -> None:
    terminal = Terminal(relay.environment(os.environ))
    loop = asyncio.get_running_loop()
    terminal.listen(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, terminal.hang_up)

    def admit(request: Request) -> Refusal | None:
        if request.path != f"{seat.base}shell":
            return HTTPStatus.NOT_FOUND, "There is a shell here and nothing else.\n"
        if not seat.opens(request.headers.get("authorization", "")):
            return HTTPStatus.FORBIDDEN, "This needs the session's secret.\n"
        return None

    async with serving(partial(_attach, terminal), seat.host, admit, LARGEST) as port:
        await _told(seat, port, terminal, relay)
    terminal.reap()


async def _told(seat: Seat, port: int, terminal: Terminal, relay: Relay) -> None:
    """Tell where it is and when it was used, until the shell is over."""
    teller = SessionReporter(seat)
    while not terminal.over.is_set():
        teller.tell(port, terminal.used_at)
        relay.pass_on()
        with suppress(TimeoutError):
            await asyncio.wait_for(terminal.over.wait(), EVERY)


def run(seat: Seat) -> int:
    """The exit code: how the last command ended is no verdict on the session."""
    with tempfile.TemporaryDirectory(prefix="grus-session-") as folder:
        asyncio.run(_session(seat, Relay(Path(folder))))
    return 0
