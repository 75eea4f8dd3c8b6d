"""`grus demo`: a real server and real processes on a virtual pool, shown scene by scene, with a final
verdict.

Everything that it starts lives in a folder of its own. The demo ends it on success, failure and Ctrl-C alike.
"""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, for_people, hint
from grus.model.errors import Conflict, GrusError

if TYPE_CHECKING:
    from grus.cli.demo_run.story import DemoResult, DemoSession, DemoStep
    from grus.cli.demo_run.view import DemoView
    from grus.sdk.client import Client
    from grus.sdk.state_paths import GrusPaths

CONFIG = """
[server]
pool = "virtual 2x4x16GB"
port = 0

[queues.vision]
quota = 4

[queues.language]
quota = 4
"""
LONGEST = 120.0
"""Seconds for the whole story."""
POLL = 0.15
ENDING = 20.0
"""Seconds in which all jobs must end after they are asked to end."""
OF_OTHERS = ("GRUS_SERVER", "GRUS_TOKEN", "GRUS_CA", "GRUS_CONTEXT")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Server", epilog=examples("grus demo", "grus demo --keep"))(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave its folder with all logs.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Run a demo with real processes on a virtual pool.

    Two teams, eight virtual GPUs, less than a minute.
    """
    folder = Path(tempfile.mkdtemp(prefix="grus-demo-"))
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, _as_interrupt)
    passed = interrupted = False
    try:
        found = _play_in(folder, output)
        passed = all(verdict.ok for verdict in found)
        seconds = time.monotonic() - begin
        told = {"ok": passed, "seconds": round(seconds, 1), "jobs": [verdict.as_json() for verdict in found]}
        emit(told, output, lambda: _show(found, seconds))
    except KeyboardInterrupt:
        interrupted = True
        hint("interrupted; everything that was started has been ended")
        raise
    finally:
        if (passed or interrupted) and not keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            hint(f"its logs: {folder}/state")
    if not passed:
        raise typer.Exit(1)


def _as_interrupt(*_: object) -> None:
    """Treat a request to end like Ctrl-C, so that everything that was started is cleaned up."""
    raise KeyboardInterrupt


def _play_in(folder: Path, output: Format) -> "list[DemoResult]":
    from grus.cli.demo_run.story import DemoSession, scenes, verdicts
    from grus.cli.demo_run.training import NAME, LossHistory, followed_by_training, judge_training
    from grus.cli.demo_run.view import narrator

    with own_server(folder) as client:
        on, course = DemoSession(client, folder), LossHistory()
        with narrator(
            on, live=for_people() and output is Format.TABLE, silent=output is Format.JSON
        ) as teller:
            _play(on, followed_by_training(scenes(), course), teller)
        return [*verdicts(on), judge_training(on.seen.get(NAME), course)]


def _play(on: "DemoSession", scenes: "list[DemoStep]", teller: "DemoView") -> None:
    """Scene by scene; one that does not come to its end is said, and ends the story."""
    last = time.monotonic() + LONGEST
    pause = threading.Event()
    for scene in scenes:
        teller.scene(scene.title)
        if told := scene.begin(on):
            teller.says(told)
        deadline = min(last, time.monotonic() + scene.within)
        while True:
            teller.events(on.look())
            if scene.until(on):
                if scene.after is not None:
                    teller.says(scene.after(on))
                break
            if time.monotonic() > deadline:
                teller.gave_up(scene.title)
                return
            pause.wait(POLL)


@contextmanager
def own_server(folder: Path, config: str = CONFIG) -> "Iterator[Client]":
    """A server of our own in the folder; afterwards its jobs and itself are gone."""
    from grus.cli.connection import connect
    from grus.cli.server import background_process
    from grus.sdk.state_paths import places

    for name in OF_OTHERS:
        os.environ.pop(name, None)
    os.environ["GRUS_HOME"] = str(folder)
    at = places()
    at.config_file.write_text(config)
    try:
        background_process.start(at, [])
        client = connect()
        yield client
    finally:
        with _uninterrupted():
            _end_all(at)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not leave half of it behind."""
    before = {kind: signal.signal(kind, signal.SIG_IGN) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _end_all(at: "GrusPaths") -> None:
    """Stop all jobs, then the server. One that has died is started again first: it knows its processes."""
    from grus.cli.connection import connect
    from grus.cli.server import background_process

    try:
        if background_process.is_running(at) is None:
            background_process.start(at, [])
        _stop_jobs(connect())
    except GrusError as error:
        hint(f"error: not everything could be cleaned up: {error}")
    if (server := background_process.is_running(at)) is not None:
        background_process.stop(server)


def _stop_jobs(client: "Client") -> None:
    from grus.cli.commands.jobs import LIVE

    for job in client.jobs(phases=LIVE, limit=1000):
        with suppress(Conflict):  # it has ended meanwhile
            client.stop(job.id)
    deadline, pause = time.monotonic() + ENDING, threading.Event()
    while client.jobs(phases=LIVE, limit=1) and time.monotonic() < deadline:
        pause.wait(POLL)


def _show(found: "list[DemoResult]", seconds: float) -> None:
    from grus.cli.demo_run.view import show_verdicts

    show_verdicts(found, seconds)
