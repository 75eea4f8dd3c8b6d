"""A job that makes steps on a pretended GPU: part of each it computes, part of it it waits, as for data.

    pairs_program.py LOG --compute SECONDS --wait SECONDS [--turn FILE --reload SECONDS]

Each step is reported and its moment written to LOG. With `--turn` a step needs the FILE for itself, which
stands for something that no utilisation shows (a bus, a disk, a cache): who takes it over from another has to
load first what the other drove out.
"""

import argparse
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grus


def compute(seconds: float) -> None:
    """Use the CPU for that long: of its own time, so that others who take it from us make it longer."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))


@contextmanager
def turn(path: Path | None, reload: float) -> Iterator[None]:
    """The file for itself, loaded again if another had it in between."""
    if path is None:
        yield
        return
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if file.read() not in ("", str(os.getpid())):
            time.sleep(reload)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--compute", type=float, default=0.02)
    parser.add_argument("--wait", type=float, default=0.08)
    parser.add_argument("--turn", type=Path)
    parser.add_argument("--reload", type=float, default=0.1)
    told = parser.parse_args()
    step = len(told.log.read_text().split()) if told.log.exists() else 0
    with told.log.open("a") as log:
        while True:
            with turn(told.turn, told.reload):
                compute(told.compute)
                time.sleep(told.wait)
            step += 1
            print(time.time(), file=log, flush=True)
            grus.report(step=step)


if __name__ == "__main__":
    main()
