"""Replica of a job with a `serve:` section, from its start to its end.

    python3 -m grus.serving.replica '{"model": "nets.py:network", "weights": "out/model.pt"}'

It loads the model, listens where its job's workers may, reports its address to the control plane together
with a secret made for this process, and answers until it is asked to end; then it finishes the requests that
have started.
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

try:
    import uvicorn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "serve: needs uvicorn: pip install 'grus-gpu-sdk[serve]'", name="uvicorn"
    ) from error

from grus.elastic.rendezvous.device_errors import OUT, is_sticky
from grus.elastic.training_loop.devices import own_device
from grus.model.errors import BadInput
from grus.model.train_serve_spec import ServeSection, on_command_line
from grus.sdk import worker
from grus.serving.app import App
from grus.serving.model_loader import served

TELL = 2.0
"""Seconds between two looks at whether there is something new to tell."""
LONGEST_END = 25.0
"""Seconds that requests under way get when this replica is to end."""
BACKLOG = 1024
KEPT = 60
"""Seconds for which a connection may be idle; the server closes its own before that."""


def main(words: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        section = on_command_line(ServeSection, words)
        model = served(section, Path.cwd(), own_device())
    except BadInput as error:
        for mistake in error.mistakes:
            sys.stderr.write(f"error: {mistake}\n")
        return 2
    secret = secrets.token_urlsafe(32)
    listener = socket.create_server((os.environ.get("GRUS_HOST", "127.0.0.1"), 0), backlog=BACKLOG)
    host, port = listener.getsockname()[:2]
    app = App(model, secret, section.batch, _end_if_lost)
    _say(f"serves {model.about}")
    asyncio.run(_serve(app, listener, f"{host}:{port}", secret))
    app.close()
    _say(f"ends after {app.requests} requests")
    return 0


class _Server(uvicorn.Server):
    """Ends by SIGTERM or SIGINT as a program that is done, not as one that was killed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leave)
        yield

    def _leave(self) -> None:
        self.should_exit = True


async def _serve(app: App, listener: socket.socket, address: str, secret: str) -> None:
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=int(LONGEST_END),
    )
    telling = asyncio.create_task(_tell(app, address, secret))
    try:
        await _Server(config).serve(sockets=[listener])
    finally:
        telling.cancel()


async def _tell(app: App, address: str, secret: str) -> None:
    """Report this replica's address at once, and its metrics whenever they change."""
    told: dict[str, float] = {}
    worker.tell(endpoint={"address": address, "secret": secret})
    worker.ring()
    while True:
        if app.figures != told:
            told = app.figures
            worker.report(**told)
        await asyncio.sleep(TELL)


def _end_if_lost(error: BaseException) -> None:
    """Some errors of a device last as long as the process: another one must take its place."""
    if is_sticky(error):
        traceback.print_exception(error)
        sys.stderr.write("grus: the device of this replica is lost; another takes its place\n")
        sys.stderr.flush()
        os._exit(OUT)  # the usual exit would wait for the device


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
