"""Two trainings that are alive at once and take turns of some steps.

What a runtime adds to a step is less than a shared machine drifts in a minute, so the two must be measured
within seconds of each other, and in turn.
"""

import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Self

PLACE = "RESIZE_TURNS"
"""Names the environment variable with the path of the socket where turns are given."""
KIND = "RESIZE_KIND"
"""… with the name of the training that a worker belongs to."""


class Turn:
    """The worker's side: call `step` at the end of each step, and once before the first."""

    def __init__(self) -> None:
        self._line: Connection = Client(os.environ[PLACE], family="AF_UNIX")
        self._line.send(os.environ[KIND])
        self._left = 0
        self._began: float | None = None

    def step(self) -> None:
        """Return when there is another step to do."""
        self._left -= 1
        if self._left > 0:
            return
        if self._began is not None:
            self._line.send(time.perf_counter() - self._began)
        self._left = self._line.recv()
        self._began = time.perf_counter()


class Turns:
    """The side that gives turns to trainings of a known number of workers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._lines: dict[str, list[Connection]] = {}

    def __enter__(self) -> Self:
        self._listener = Listener(str(self.place), family="AF_UNIX")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lines in self._lines.values():
            for line in lines:
                line.close()
        self._listener.close()

    def gather(self, kinds: Sequence[str], workers: int) -> None:
        """Wait until so many workers of each training wait for their first turn."""
        while sum(map(len, self._lines.values())) < len(kinds) * workers:
            line = self._listener.accept()
            self._lines.setdefault(line.recv(), []).append(line)

    def give(self, kind: str, steps: int) -> float:
        """Let a training do so many steps; the seconds until its last worker was done."""
        for line in self._lines[kind]:
            line.send(steps)
        return max(float(line.recv()) for line in self._lines[kind])
