"""Attach this terminal to a shell session: send keys, show output, until either side ends.

The connection works like a browser's: a code that opens once, a cookie, a web socket. Ctrl-] leaves the shell
running; a later connection finds it unchanged.
"""

import http.client
import json
import logging
import os
import select
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from grus.cli.render.escape import tamed
from grus.cli.render.output import hint
from grus.model.errors import NotLoggedIn, Unreachable
from grus.sdk.contexts import chosen_context, trust
from grus.sdk.state_paths import places

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from grus.api.wire_types.dev_session import SessionOut
    from grus.sdk.client import Client

log = logging.getLogger(__name__)

NOTICES = frozenset({"idle", "busy", "limit"})
"""Kinds of events that somebody at work should see."""
LEAVE = b"\x1d"
"""Ctrl-]"""
END_OF_FILE = b"\x04"
"""Ctrl-D"""
REPEAT_S = 1.0
PIECE = 4096
PATIENCE = 10.0


def attached(client: "Client", job: str, way: "SessionOut") -> int:
    """Run until the shell ends or is left; return the exit code."""
    from websockets.sync.client import connect
    from websockets.typing import Origin

    place = urlsplit(way.origin)
    # The name of a session may be one that only browsers know: its server is where the API is.
    target = (urlsplit(client.address).hostname or "127.0.0.1", place.port or (443 if _tls(way) else 80))
    cookie = _entered(way, target)
    scheme = "wss" if _tls(way) else "ws"
    with connect(
        f"{scheme}://{place.netloc}/dev/{job}/shell",
        sock=socket.create_connection(target, PATIENCE),
        ssl=_trust() if _tls(way) else None,
        origin=Origin(way.origin),
        additional_headers={"Cookie": cookie},
        compression=None,
        proxy=None,
        max_size=None,
    ) as connection:
        return _talk(connection, job)


def _entered(way: "SessionOut", target: tuple[str, int]) -> str:
    """The cookie for the code in the address."""
    parts = urlsplit(way.url)
    made = (
        http.client.HTTPSConnection(*target, timeout=PATIENCE, context=_trust())
        if _tls(way)
        else http.client.HTTPConnection(*target, timeout=PATIENCE)
    )
    with _closing(made):
        headers = {"Host": parts.netloc, "Origin": way.origin, "Content-Type": "text/plain"}
        try:
            made.request("POST", parts.path, parts.fragment.removeprefix("code="), headers)
            answer = made.getresponse()
            said = answer.read()
        except OSError as error:
            address = f"{target[0]}:{target[1]}"
            raise Unreachable(
                f"Sessions are reached at {address}, which does not answer ({error})."
            ) from error
        if answer.status != http.client.OK:
            raise NotLoggedIn(json.loads(said)["error"]["message"])
        return (answer.getheader("Set-Cookie") or "").partition(";")[0]


def _talk(connection: "ClientConnection", job: str) -> int:
    """Keys in one thread, output in another."""
    left = threading.Event()
    threading.Thread(target=_tell, args=(job,), daemon=True).start()
    with _raw_terminal(connection):
        reader, writer = os.pipe()
        keys = threading.Thread(target=_keys, args=(connection, left, reader), daemon=True)
        keys.start()
        _show(connection)
        os.write(writer, b"!")
        keys.join()
        os.close(reader)
        os.close(writer)
    if left.is_set():
        hint(f"\nThe shell goes on; `grus dev {job}` comes back to it, `grus stop {job}` ends it.")
    else:
        hint(f"[grus] session {job} is over for this terminal; `grus describe {job}` says how it is.")
    return 0


def _tell(job: str) -> None:
    """Print notices of Grus about the session between the lines of the shell; ends with this process."""
    from grus.cli.connection import connected

    try:
        with connected() as client:
            known = max((event.seq for event in client.events(job=job)), default=0)
            for event in client.watch(job=job, after=known):
                if event.kind in NOTICES:
                    sys.stderr.write(f"\r\n[grus] {tamed(event.text)}\r\n")
                    sys.stderr.flush()
    except Exception as error:
        log.debug("watching the notices for %s failed", job, exc_info=True)
        sys.stderr.write(f"\r\n[grus] notices about {job} are no longer shown: {tamed(str(error))}\r\n")


def _show(connection: "ClientConnection") -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed):
        for message in connection:
            data = message.encode() if isinstance(message, str) else message
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]


def _keys(connection: "ClientConnection", left: threading.Event, stop: int) -> None:
    """Send typed keys. If stdin is a file and not a terminal, signal end of input at its end."""
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed, OSError):
        while True:
            ready, _, _ = select.select([sys.stdin.fileno(), stop], [], [])
            if stop in ready:
                return
            typed = os.read(sys.stdin.fileno(), PIECE)
            if not typed:
                _send_end(connection, stop)
                return
            if LEAVE in typed and sys.stdin.isatty():
                left.set()
                connection.close()
                return
            connection.send(typed)


def _send_end(connection: "ClientConnection", stop: int) -> None:
    """Send end-of-file until the shell takes it: one that starts drops input from before its prompt."""
    connection.send(END_OF_FILE)
    while not select.select([stop], [], [], REPEAT_S)[0]:
        connection.send(END_OF_FILE)


@contextmanager
def _raw_terminal(connection: "ClientConnection") -> Iterator[None]:
    """Every key goes to the shell, and the shell knows how large the window is."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    hint("[grus] Ctrl-] leaves the shell running.")
    before = termios.tcgetattr(sys.stdin)
    told = signal.signal(signal.SIGWINCH, lambda *_: _tell_size(connection))
    tty.setraw(sys.stdin)
    try:
        _tell_size(connection)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, told)


def _tell_size(connection: "ClientConnection") -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed, OSError):
        size = os.get_terminal_size(sys.stdin.fileno())
        connection.send(json.dumps({"rows": size.lines, "cols": size.columns}))


def _tls(way: "SessionOut") -> bool:
    return way.origin.startswith("https:")


def _trust() -> ssl.SSLContext:
    found = trust(os.environ, chosen_context(os.environ, places()))
    if isinstance(found, ssl.SSLContext):
        return found
    return ssl.create_default_context()


@contextmanager
def _closing(made: Any) -> Iterator[None]:
    try:
        yield
    finally:
        made.close()
