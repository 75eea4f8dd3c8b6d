"""Die at every point: `python -m tests.trust.crash_points [--scenarios 5|20]`, one JSON line.

Each scenario is first played without a crash, which finds its points: before and after every write of the
store and every effect of the engine. Then it is played once for each of them: the control plane dies there,
another one takes over, and in the end everything must be as it was without: the same jobs in the same phases
after the same attempts, every process started once, none left. Some are played on the durable store as well,
where the one that takes over reads what is in the file; the last is killed at every line of a commit.
"""

import argparse
import json
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grus.model.jobs import Job, Phase
from tests.controlplane.plane import Plane
from tests.trust import crash_files, crash_jobs, crash_work
from tests.trust.dying import Bomb, Disk, Drive, Memory

TELL_EVERY = 3.0
"""Seconds between two lines about how far it is."""

Play = Callable[[Drive], dict[str, Phase]]


@dataclass(frozen=True, slots=True)
class Scenario:
    play: Play
    pool: str = "1x4"

    @property
    def name(self) -> str:
        return self.play.__name__


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario ended, in words in which no id is."""

    jobs: Counter[tuple[object, ...]]
    """What is on record of each."""
    started: Counter[tuple[str, int, str]]
    """How many workers were ever begun for each job, attempt and role."""


PLAYED: tuple[Scenario, ...] = (
    Scenario(crash_jobs.submitted),
    Scenario(crash_jobs.reclaimed),
    Scenario(crash_jobs.resized),
    Scenario(crash_jobs.paused),
    Scenario(crash_work.staged),
    Scenario(crash_jobs.ordinary),
    Scenario(crash_jobs.failing),
    Scenario(crash_jobs.led),
    Scenario(crash_jobs.lost),
    Scenario(crash_jobs.enlarged),
    Scenario(crash_jobs.together),
    Scenario(crash_jobs.handed_on),
    Scenario(crash_jobs.spread, pool="2x2"),
    Scenario(crash_jobs.served),
    Scenario(crash_jobs.idled),
    Scenario(crash_jobs.requeued),
    Scenario(crash_jobs.node_lost, pool="2x2"),
    Scenario(crash_work.skipped),
    Scenario(crash_work.searched, pool="1x2"),
)
"""On a store in memory; those of the short size first."""
COMMITTED = "committed"
"""The scenario of a worker that leaves a checkpoint and an artefact."""
ON_DISK = 5
"""How many of the first ones are played on the durable store, in the long size."""


def play(
    scenario: Scenario, at: int, folder: Path, kind: type[Memory] | type[Disk] = Memory
) -> tuple[Outcome, Bomb]:
    """Die at that point, or not at all (0). Raises AssertionError if a promise was broken."""
    bomb = Bomb(at)
    place = kind(folder)
    plane = Plane(*crash_jobs.QUEUES, pool=scenario.pool, store=place.store, state=folder / "state")
    drive = Drive(plane, bomb, place, folder)
    place.begin(bomb)
    plane.engine.trap = bomb
    try:
        expected = scenario.play(drive)
        found = {name: drive.plane.phase(id_) for name, id_ in drive.ids.items()}
        assert found == expected, found
        assert drive.deaths == (at > 0), "it did not die"
        return _outcome(drive), bomb
    finally:
        plane.close()
        place.close()


def _outcome(drive: Drive) -> Outcome:
    engine, jobs = drive.plane.engine, drive.plane.store.jobs()
    assert engine.alive() == [], "somebody lives on"
    assert engine.workers() == (), "somebody is not forgotten"
    begun = engine.workers_alive.started
    assert len(begun) == len(set(begun)), "a worker was started twice"
    names = {str(job.id): f"{job.spec.name} {job.spec.params}" for job in jobs}
    told = [
        (names[job.id], job.phase, job.attempt, job.failures, job.held, _end(job), job.artefacts)
        for job in jobs
    ]
    workers = [worker.split(".") for worker in begun]  # job, attempt, role and more
    return Outcome(
        Counter(told), Counter((names[job], int(attempt), role) for job, attempt, role, *_ in workers)
    )


def _end(job: Job) -> object:
    """How it ended, without the words."""
    return job.exit and (job.exit.cause, job.exit.code)


def survivals(scenario: Scenario, folder: Path, kind: type[Memory] | type[Disk] = Memory) -> Iterator[str]:
    """For each point in turn: what went wrong when it died there, "" if nothing did."""
    calm, bomb = play(scenario, 0, _made(folder / "calm"), kind)
    for at, point in enumerate(bomb.places, start=1):
        own = _made(folder / str(at))
        try:
            found, _ = play(scenario, at, own, kind)
            yield "" if found == calm else f"killed {point}: {found} in place of {calm}"
        except Exception as error:  # noqa: BLE001 - whatever went wrong after a death is what is looked for
            yield f"killed {point}: {type(error).__name__}: {error}"
        shutil.rmtree(own)


def commits(folder: Path) -> Iterator[str]:
    """The same for each line of what a worker commits."""
    for make, commit, look in crash_files.COMMITS:
        try:
            for _ in crash_files.deaths(_made(folder / commit.__name__), make, commit, look):
                yield ""
        except AssertionError as error:
            yield f"killed while it was to {commit.__name__}: {error}"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@dataclass(slots=True)
class Figures:
    """What is counted; `points` and `survived` must be equal."""

    points: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, name: str, survived: Iterator[str]) -> None:
        said = time.monotonic()
        self.points[name] = 0
        for wrong in survived:
            self.points[name] += 1
            if wrong:
                self.wrong.append(f"{name}: {wrong}")
                _say(self.wrong[-1])
            if time.monotonic() - said > TELL_EVERY:
                said = time.monotonic()
                _say(f"{name}: {self.points[name]} points")


def run(folder: Path, scenarios: int) -> dict[str, object]:
    """So many scenarios at every point; with the last of all, those on disk too."""
    begun, figures = time.monotonic(), Figures()
    for one in PLAYED[:scenarios]:
        figures.count(one.name, survivals(one, _made(folder / one.name)))
    if scenarios > len(PLAYED):
        figures.count(COMMITTED, commits(_made(folder / COMMITTED)))
        for one in PLAYED[:ON_DISK]:
            name = f"{one.name} on disk"
            figures.count(name, survivals(one, _made(folder / name), Disk))
    points = sum(figures.points.values())
    return {
        "scenarios": min(scenarios, len(PLAYED) + 1),
        "points": points,
        "survived": points - len(figures.wrong),
        "seconds": round(time.monotonic() - begun, 1),
        "points_of": figures.points,
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.trust.crash_points")
    options.add_argument("--scenarios", type=int, default=5, help=f"how many of {len(PLAYED) + 1}")
    logging.disable(logging.CRITICAL)  # every death would be told
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), options.parse_args().scenarios)
    print(json.dumps(found))
    return 0 if found["points"] == found["survived"] else 1


if __name__ == "__main__":
    sys.exit(main())
