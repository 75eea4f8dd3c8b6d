"""How fast the local engine is: `python -m tests.engines.measure [workers] [at a time]`; one JSON line."""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState, WorkerStatus
from grus.model.resources import GPU
from grus.telemetry.virtual_gpus import VirtualSource


def trivial(number: int) -> WorkerSpec:
    return WorkerSpec(
        id=WorkerId(f"j{number}.1.main.0.1"),
        job=JobId(f"j{number}"),
        attempt=1,
        node=NodeId("node-0"),
        argv=("/bin/true",),
        env=(("PATH", "/usr/bin:/bin"),),
        workdir="/",
        devices=(DeviceId(f"node-0/gpu-{number % 8}"),),
        share=GPU,
    )


def measure(state: Path, workers: int, together: int) -> dict[str, float]:
    """Start workers, so many at a time, until all have ended and are forgotten."""
    engine = LocalEngine(state, VirtualSource("1x8x16GB"))
    engine.open(1)
    asked: dict[str, float] = {}
    running: list[float] = []
    ended = 0
    room = threading.Semaphore(together)
    over = threading.Event()

    def hear(status: WorkerStatus) -> None:
        nonlocal ended
        if status.state is WorkerState.RUNNING and status.started_at is not None:
            running.append(status.started_at - asked[status.id])
        elif status.state is WorkerState.ENDED:
            engine.forget(status.id)
            ended += 1
            room.release()
            if ended == workers:
                over.set()

    engine.subscribe(hear)
    engine.start(trivial(10**6))
    begun = 0.0
    asked["j1000000.1.main.0.1"] = time.time()
    for number in range(workers - 1):
        room.acquire()
        if number == 1:
            begun = time.monotonic()
        asked[f"j{number}.1.main.0.1"] = time.time()
        engine.start(trivial(number))
    over.wait(120)
    seconds = time.monotonic() - begun
    engine.close()
    running.sort()
    return {
        "workers_per_s": round((workers - 2) / seconds, 1),
        "start_to_running_ms_p50": round(1000 * running[len(running) // 2], 2),
        "start_to_running_ms_p99": round(1000 * running[int(len(running) * 0.99)], 2),
    }


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "engine", *(numbers + [500, 8][len(numbers) :]))
    print(json.dumps(found))
