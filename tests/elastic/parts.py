"""Workers that hold parts of one state: a team for life, started as a job or torchrun starts it."""

import json
import random
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fork_server import ForkServer

PATIENCE = 300.0
"""Seconds; the deadline is for broken code only."""
PORTS = range(10_000, 20_000)
"""Below those that Linux assigns by itself, of which one may be taken again before it is used."""


def free_port() -> int:
    """A port on which no process listens, and which Linux assigns to no other."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Team:
    """So many workers of one task (see `trainee.Task`), each with a file of what it prints."""

    def __init__(self, forks: ForkServer, folder: Path, workers: int, **task: Any) -> None:
        attempt = task.pop("attempt", 1)
        self._fork_server = forks
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "die").mkdir(exist_ok=True)
        port = free_port()
        self.pids: list[int] = []
        self._births: list[int] = []
        for rank in range(workers):
            environment = {
                "TRAINEE": json.dumps({"folder": str(folder), **task}),
                "NAME": f"worker{rank}of{workers}",
                "RANK": str(rank),
                "LOCAL_RANK": "0",
                "WORLD_SIZE": str(workers),
                "LOCAL_WORLD_SIZE": str(workers),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "GRUS_HOST": "127.0.0.1",
                "GRUS_ATTEMPT": str(attempt),
            }
            pid, birth = forks.born(environment, self.output(rank))
            self.pids.append(pid)
            self._births.append(birth)

    def output(self, rank: int) -> Path:
        return self.folder / f"output{rank}"

    def until_step(self, step: int) -> None:
        """Wait until all have done so many steps; the task's gate holds them there."""
        deadline = time.monotonic() + PATIENCE
        while any(self._step(rank) < step for rank in range(len(self.pids))):
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.005)

    def _step(self, rank: int) -> int:
        at = self.folder / "at" / f"worker{rank}of{len(self.pids)}"
        words = at.read_text().split() if at.exists() else []
        return int(words[1]) if len(words) > 1 else 0

    def codes(self) -> list[int]:
        """Exit codes of all, when all have ended."""
        deadline = time.monotonic() + PATIENCE
        while None in (found := [self._fork_server.code(one) for one in self._births]):
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.005)
        return [code for code in found if code is not None]

    def said(self) -> str:
        return "\n".join(self.output(rank).read_text() for rank in range(len(self.pids)))
