"""What a survivor of many resizes has piled up: `python -m tests.elastic.resizes 100`, one JSON line.

One worker stays while others join it and leave again (every fourth one is killed). After a while its memory,
its threads and its open files must stop growing. It trains a model that is compiled: resizes must not have it
compiled again, since no shape changes. In the end four workers train at a fixed cost per micro-batch, so that
the number of samples per second must be higher than with one.
"""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.elastic.conductor import BACKENDS, Conductor, Worker
from tests.elastic.kills import stage
from tests.fork_server import TORCH, ForkServer

WARM = 0.2
"""Part of the resizes after which everything that is made once has been made."""
MEMORY = 8.0
"""Megabytes that may come and go with the allocator's mood."""
FILES = THREADS = 6
"""May be open for a moment, while an old team is being let go."""
RESTING = 60.0
"""Seconds in which old teams must have been let go of."""
PACE = 0.02
MOST = 4


@dataclass(slots=True)
class Load:
    """Of one process."""

    megabytes: float
    threads: int
    files: int


@dataclass(slots=True)
class Figures:
    resizes: int = 0
    compilations: int = 0
    """The most that any process did."""
    megabytes_warm: float = 0.0
    megabytes_end: float = 0.0
    megabytes_grown: float = 0.0
    """The most that a survivor has grown by."""
    threads_grown: int = 0
    files_grown: int = 0
    samples_per_s_1: float = 0.0
    samples_per_s_4: float = 0.0
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        return (
            self.compilations > 1
            or self.megabytes_grown > MEMORY
            or self.threads_grown > THREADS
            or self.files_grown > FILES
            or bool(self.samples_per_s_4 and self.samples_per_s_4 < 1.5 * self.samples_per_s_1)
        )


def run(resizes: int, backend: str, forks: ForkServer, figures: Figures) -> None:
    shapes = {"samples": 512, "batch": 64, "micro": 8}  # no smaller micro-batch at the end of an epoch
    with stage(forks, backend, program="compiled", epochs=10**6, audit=False, **shapes) as job:
        (stays,) = job.spawn()
        job.publish([stays])
        warm = None
        for number in range(0, resizes, 2):
            job.publish([stays, *job.spawn()])
            job.go_on(1)
            _lose_the_other(job, by_death=number % 8 == 6)
            job.go_on(1)
            if warm is None and number >= WARM * resizes:
                warm = load(stays)
        assert warm is not None
        end = at_rest(stays, warm)
        print(f"{backend}: {warm} {end}", file=sys.stderr)
        figures.resizes += resizes
        figures.megabytes_warm, figures.megabytes_end = warm.megabytes, end.megabytes
        figures.megabytes_grown = max(figures.megabytes_grown, round(end.megabytes - warm.megabytes, 1))
        figures.threads_grown = max(figures.threads_grown, end.threads - warm.threads)
        figures.files_grown = max(figures.files_grown, end.files - warm.files)
        figures.compilations = max(figures.compilations, compilations(job))


def _lose_the_other(job: Conductor, *, by_death: bool) -> None:
    stays, other = job.members
    if by_death:
        job.kill(other)
    job.publish([stays], lost=by_death)
    if not by_death:
        job.go_on(1)
        job.gone(other)
        assert job.code(other) == 0, job.output(other)


def grow(forks: ForkServer, figures: Figures) -> None:
    """Samples per second of one worker and of four, as the run itself reports them."""
    with stage(forks, "gloo", epochs=10**6, samples=512, batch=128, micro=8, pace=PACE) as job:
        (first,) = job.spawn()
        job.publish([first])
        figures.samples_per_s_1 = _samples_per_s(job, first)
        job.publish([first, *job.spawn(MOST - 1)])
        figures.samples_per_s_4 = _samples_per_s(job, first)


def _samples_per_s(job: Conductor, worker: Worker) -> float:
    """When a whole report of the present team is there, some seconds old."""
    done = job.go_on(20)
    job.gate(None)

    def reported() -> float | None:
        line = (worker.folder / "report").read_bytes().split(b"\n")[-2]
        figures = json.loads(line)["figures"]
        fresh = figures.get("world") == len(job.members) and figures["step"] > done + 5
        return round(figures["samples_per_s"], 1) if fresh and "samples_per_s" in figures else None

    return job.until(reported)


def compilations(job: Conductor) -> int:
    """The most that any process has counted."""
    return max(int(path.read_text()) for path in (job.folder / "compilations").iterdir())


def at_rest(worker: Worker, warm: Load) -> Load:
    """What it holds when it has let go of its last teams; a thread does so, when it gets a core."""
    deadline = time.monotonic() + RESTING
    while (found := load(worker)) and time.monotonic() < deadline:
        if found.threads <= warm.threads + THREADS and found.files <= warm.files + FILES:
            break
        time.sleep(0.01)
    return found


def load(worker: Worker) -> Load:
    process = Path("/proc") / str(worker.pid)
    pages = int((process / "statm").read_text().split()[1])
    return Load(
        megabytes=round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1),
        threads=len(list((process / "task").iterdir())),
        files=len(list((process / "fd").iterdir())),
    )


def main() -> None:
    resizes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    began = time.monotonic()
    figures = Figures()
    with ForkServer(*TORCH) as forks:
        for backend in BACKENDS:
            run(resizes, backend, forks, figures)
        grow(forks, figures)
    figures.seconds = round(time.monotonic() - began, 1)
    print(json.dumps(asdict(figures)))
    sys.exit(figures.wrong)


if __name__ == "__main__":
    main()
