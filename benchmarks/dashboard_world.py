"""The server that `benchmarks.dashboard` looks at: a large pool in a process of its own, driven by lines.

It tells its address as one line of JSON, then obeys: `finish N PAUSE` lets N jobs end, one after the other;
`measure N PAUSE` gives all GPUs new figures N times; `wait S`; `cpu`. Each answer has the CPU seconds so
far of the threads that answer people: the jobs themselves are paid for by others.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grus.model.identifiers import JobId
from grus.model.interfaces import REPORTS, Event
from grus.model.jobs import Job
from grus.model.metrics_history import Reported
from tests.dashboard.large import World, built, served

MANY_REPORTS = 500
"""Of the job whose page is looked at: it has curves to draw."""
PATIENCE = 30.0
"""Seconds that the end of a job may take."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=5000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="grus-bench-") as folder,
        built(Path(folder), gpus=given.gpus, jobs=given.jobs) as world,
        served(world) as address,
    ):
        job = world.running()[-1]
        world.store.put(REPORTS, *reports(job, time.time())).result()
        tell({"address": address, "job": job.id})
        for line in sys.stdin:
            tell(obey(world, line.split()))
    return 0


def reports(job: Job, now: float) -> Iterator[Reported]:
    """A training so far, a report every ten seconds: it learns, ever more slowly."""
    for number in range(MANY_REPORTS):
        figures = (("step", 10.0 * number), ("batch", 64.0), ("loss", 2.0 / (1 + 0.02 * number)))
        at = now - 10.0 * (MANY_REPORTS - number)
        yield Reported(job=job.id, number=number, attempt=job.attempt, at=at, figures=figures, gpus=job.held)


def obey(world: World, words: Sequence[str]) -> dict[str, float]:
    events = world.services.jobs.last_event
    if words[0] == "finish":
        finish(world, int(words[1]), float(words[2]))
    elif words[0] == "measure":
        for _ in range(int(words[1])):
            world.measure()
            time.sleep(float(words[2]))
    elif words[0] == "wait":
        time.sleep(float(words[1]))
    return {"cpu": serving(), "events": world.services.jobs.last_event - events}


def serving(known: dict[int, float] = {}) -> float:  # noqa: B006 - kept on purpose: what ended threads took counts
    """CPU seconds of the event loop and of the threads that it asks, as far as they were seen."""
    for one in threading.enumerate():
        if one.ident is not None and (one.name == "http" or one.name.startswith("AnyIO")):
            known[one.native_id or 0] = time.clock_gettime(time.pthread_getcpuclockid(one.ident))
    return sum(known.values())


def finish(world: World, count: int, pause: float) -> None:
    """So many jobs end, at most one every `pause` seconds, each known to be on disk before the next."""
    done: dict[JobId, threading.Event] = {}

    def heard(written: Sequence[tuple[Job, Event | None]]) -> None:
        for job, _ in written:
            if job.terminal and job.id in done:
                done[job.id].set()

    leave = world.store.subscribe(heard)
    for job in world.running()[:count]:
        done[job.id] = threading.Event()
        world.finish(job.id)
        if not done[job.id].wait(PATIENCE):
            raise TimeoutError(f"{job.id} has not ended in {PATIENCE:g} s")
        time.sleep(pause)  # the load: so many events a second
    leave()


def tell(answer: Mapping[str, object]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
