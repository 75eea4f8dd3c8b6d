"""Stops of workers that fork, daemonise and ignore signals: `python -m tests.chaos.stops 300`, one JSON line.

Each worker keeps forking: plain children, orphans in sessions of their own, and a chain of shells each of
which starts the next and dies. All of them carry a mark in their environment; after the stop nobody with it
may live.
"""

import json
import secrets
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from grus.engines.local import processes
from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState, WorkerStatus
from grus.telemetry.virtual_gpus import VirtualSource

TOGETHER = 4
MARK = "GRUS_TEST_MARK"
FORK_HAPPY = r"""
trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM; while :; do sleep 7; done' &)
(setsid sh -c 'trap "" TERM; while :; do (setsid sleep 7 &); sleep 0.05; done' &)
chain() { sleep 0.02; ( chain & ); }
( chain & )
for i in 1 2 3; do sleep 7 & done
echo ready
while :; do ( sleep 0.03 & ); sleep 0.02; done
"""


@dataclass(frozen=True, slots=True)
class Figures:
    stops: int
    left: int
    """Processes that lived on after their worker had ended."""
    killed: int
    """Processes that were alive when their worker was asked to stop."""
    slowest_s: float
    """Longest time from the call of stop to the end."""
    seconds: float


def marked(mark: str) -> int:
    """Living processes that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    return sum(one.alive and processes.carries(one.pid, wanted) for one in processes.scan().values())


def run(state: Path, stops: int) -> Figures:
    """Start and stop that many workers, some at a time."""
    begun = time.monotonic()
    engine = LocalEngine(state, VirtualSource("1x4x16GB"))
    engine.open(1)
    ended: dict[WorkerId, threading.Event] = {}
    engine.subscribe(lambda status: _note(ended, status))
    found: list[tuple[int, int, float]] = []
    numbers = iter(range(stops))
    guard = threading.Lock()

    def take() -> int | None:
        with guard:
            return next(numbers, None)

    def work() -> None:
        while (number := take()) is not None:
            found.append(_one(engine, ended, number))

    threads = [threading.Thread(target=work) for _ in range(TOGETHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.close()
    return Figures(
        stops=len(found),
        left=sum(one[0] for one in found),
        killed=sum(one[1] for one in found),
        slowest_s=round(max(one[2] for one in found), 3),
        seconds=round(time.monotonic() - begun, 1),
    )


def _note(ended: dict[WorkerId, threading.Event], status: WorkerStatus) -> None:
    if status.state is WorkerState.ENDED:
        ended[status.id].set()


def _one(engine: LocalEngine, ended: dict[WorkerId, threading.Event], number: int) -> tuple[int, int, float]:
    mark = secrets.token_hex(8)
    worker = WorkerId(f"j{number}.1.main.0.1")
    over = ended[worker] = threading.Event()
    engine.start(
        WorkerSpec(
            id=worker,
            job=JobId(f"j{number}"),
            attempt=1,
            node=NodeId("node-0"),
            argv=("/bin/sh", "-c", FORK_HAPPY),
            env=(("PATH", "/usr/bin:/bin"), (MARK, mark)),
            workdir="/",
        )
    )
    deadline = time.monotonic() + 300
    while b"ready" not in engine.log(worker)[0] or marked(mark) < 8:
        assert time.monotonic() < deadline, "the worker did not come up"
        time.sleep(0.01)
    before = marked(mark)
    asked = time.monotonic()
    engine.stop(worker, 0.05)
    assert over.wait(300), "the worker did not end"
    took = time.monotonic() - asked
    left = marked(mark)
    engine.forget(worker)
    return left, before, took


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder) / "engine", int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    print(
        json.dumps(
            {
                "stops": figures.stops,
                "processes_left": figures.left,
                "processes_killed": figures.killed,
                "slowest_s": figures.slowest_s,
                "seconds": figures.seconds,
            }
        )
    )
    sys.exit(1 if figures.left else 0)
