"""A job that makes steps: a little computing, then a wait, as for data. It goes on where it was.

    pair_program.py LOG [--turn FILE]

Each step is reported and its moment written to LOG. With `--turn` a step needs the FILE for itself, which
stands for something that no utilisation shows (a bus, a disk, a cache): who takes it over from another has to
load first what the other drove out. So two of them do less together than they would one after the other.
"""

import argparse
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grus

COMPUTE, WAIT = 0.02, 0.08
RELOAD = 0.1
"""Seconds of a step; and of loading again what another has driven out."""


def busy(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


@contextmanager
def turn(path: Path | None) -> Iterator[None]:
    """The file for itself, loaded again if another had it in between."""
    if path is None:
        yield
        return
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if file.read() not in ("", str(os.getpid())):
            time.sleep(RELOAD)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--turn", type=Path)
    told = parser.parse_args()
    step = len(told.log.read_text().split()) if told.log.exists() else 0
    with told.log.open("a") as log:
        while True:
            with turn(told.turn):
                busy(COMPUTE)
                time.sleep(WAIT)
            step += 1
            print(time.time(), file=log, flush=True)
            grus.report(step=step)


if __name__ == "__main__":
    main()
