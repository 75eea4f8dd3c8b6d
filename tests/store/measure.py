"""How fast the SQLite store is here: `python -m tests.store.measure`. The last line is one JSON object."""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase, Seat
from grus.model.resources import GPU
from grus.store.sqlite import SqliteStore
from tests.store.builders import a_job, an_event

SEAT = Seat("worker", 0, NodeId("n1"), (DeviceId("g1"),), GPU)


def creates_per_second(folder: Path, threads: int, each: int) -> float:
    """Durable creates by threads that each wait for one before giving the next."""

    def submit(store: SqliteStore) -> None:
        for _ in range(each):
            job = a_job()
            store.create(job, an_event(job), key=job.id).result()

    with closing(SqliteStore(folder / f"{threads}.db")) as store:
        running = [threading.Thread(target=submit, args=(store,)) for _ in range(threads)]
        began = time.perf_counter()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return threads * each / (time.perf_counter() - began)


def milliseconds(work: Callable[[], object]) -> float:
    """The best of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return round(min(times) * 1000, 2)


def all_of(futures: "list[Future[Job]]") -> list[Job]:
    return [future.result() for future in futures]


def main() -> int:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for threads in (1, 16, 32):
            rate = creates_per_second(Path(folder), threads, 3200 // threads if threads > 1 else 300)
            figures[f"creates_per_s_{threads}_waiting"] = round(rate)
        with closing(SqliteStore(Path(folder) / "list.db")) as store:
            jobs = all_of([store.create(a_job(submitted_at=n), an_event()) for n in range(5000)])
            starts = iter([jobs[:1000], jobs[1000:2000], jobs[2000:3000]])

            def start() -> None:
                changes = [replace(job, phase=Phase.STARTING, seats=(SEAT,)) for job in next(starts)]
                all_of([store.replace(job, an_event(job, "starting")) for job in changes])

            figures["replace_1000_ms"] = milliseconds(start)
            figures["list_5000_ms"] = milliseconds(store.jobs)
            figures["list_100_ms"] = milliseconds(lambda: store.jobs(limit=100))
            figures["count_ms"] = milliseconds(store.count)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
