"""The log of steps that every worker writes, whatever runtime it trains on, and how it is read.

One file a process, one line a finished step: when it was begun and finished (wall clock), its number, how
many workers shared it, and how often this process began it (more than once: an attempt was thrown away).
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = "RESIZE_LOGS"
"""Names the environment variable with the folder of the logs; it also marks the processes of one run."""


@dataclass(frozen=True, slots=True)
class Line:
    """One step as one process saw it."""

    process: int
    begun: float
    done: float
    step: int
    world: int
    attempts: int


class StepLog:
    """The writing side, in the training process: `begin` before each attempt, `done` after the optimizer."""

    def __init__(self) -> None:
        self._path = Path(os.environ[FOLDER]) / f"{os.getpid()}.steps"
        self._begun = 0.0
        self._attempts = 0

    def begin(self) -> None:
        if self._attempts == 0:
            self._begun = time.time()
        self._attempts += 1

    def done(self, step: int, world: int) -> None:
        line = f"{self._begun:.6f} {time.time():.6f} {step} {world} {self._attempts}\n"
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode())
        self._attempts = 0


class StepLogs:
    """The reading side: all lines of a folder so far; reads on where it stopped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._lines: list[Line] = []

    def read(self) -> list[Line]:
        for path in self._folder.glob("*.steps"):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offsets[path] = offset + len(whole)
            self._lines += [parse(int(path.stem), row) for row in whole.decode().splitlines()]
        return self._lines


def parse(process: int, row: str) -> Line:
    begun, done, step, world, attempts = row.split()
    return Line(process, float(begun), float(done), int(step), int(world), int(attempts))
