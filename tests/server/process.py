"""A real server in a process of its own: loopback, a small virtual pool, state in a test's folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from grus.model.errors import Conflict, GrusError
from grus.model.jobs import TERMINAL, Phase
from grus.sdk.client import Client
from grus.sdk.state_paths import places, running
from grus.sdk.transport import Transport
from tests.fork_server import Child, shared
from tests.server import small_server
from tests.waiting import poll

PATIENCE = 300.0
"""Seconds; the deadline is for broken code only."""


def eventually(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until it is so; fails with `what` after some time."""
    assert poll(true, seconds), f"in {seconds:g} s it did not happen: {what}"


MODULES = ("grus.cli.main", "grus.server.main", "grus.dashboard.mounting")
"""Modules of servers, which take a second or two to import."""
Process = subprocess.Popen[str] | Child


def start(module: str, *words: str, env: Mapping[str, str], said: Path) -> Process:
    """Start a module as a program that adds what it prints to the file.

    A test forks it from a process that has the server's modules in memory. The programs of the reliability
    suite, which measure, start it as users do.
    """
    if "PYTEST_CURRENT_TEST" in os.environ:
        return shared(*MODULES).run(module, *words, environment=env, output=said, only=True)
    with said.open("a") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], env=env, stdout=file, stderr=file, text=True
        )


class ServerProcess:
    """The server of one folder; it may be killed and started again. `end` leaves nothing behind."""

    patience = PATIENCE
    """Seconds that it may take to answer."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "GRUS_HOME": str(home)}
        self.places = places(self.env)
        self.process: Process | None = None
        self.said = home / "said"

    def launch(self) -> Process:
        """One more process on this state, not waited for."""
        self.home.mkdir(exist_ok=True)
        return start(small_server.__name__, env=self.env, said=self.said)

    def start(self) -> None:
        self.process = process = self.launch()

        def up() -> bool:
            assert process.poll() is None, self.said.read_text()
            found = running(self.places)
            return found is not None and found.pid == process.pid and self._answers()

        eventually(up, "the server answers", self.patience)

    def _answers(self) -> bool:
        try:
            with self.client(patience=0.0) as client:
                client.status()
        except GrusError:
            return False
        return True

    def client(self, patience: float = PATIENCE) -> Client:
        transport = Transport(None, None, timeout=60.0, patience=patience, env=self.env)
        return Client(transport=transport)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """Stop every job, then the server."""
        try:
            if self.process is None or self.process.poll() is not None:
                self.start()
            self._stop_jobs()
            self.stop()
        finally:
            if self.process is not None and self.process.poll() is None:
                self.kill()

    def _stop_jobs(self) -> None:
        left = [phase.value for phase in Phase if phase not in TERMINAL]
        with self.client() as client:
            for job in client.jobs(phases=left, limit=1000):
                with suppress(Conflict):  # it has ended meanwhile
                    client.stop(job.id)
            eventually(lambda: not client.jobs(phases=left), f"all jobs have ended; {self.said.read_text()}")
