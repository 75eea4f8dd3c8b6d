"""Die at every point: `python -m tests.trust.crash_points [--scenarios 5|20] [--every N]`, one JSON line.

Each scenario is first played without a crash, which finds its points: before and after every write of the
store and every effect of the engine. Then it is played once for each of them: the control plane dies there,
another one takes over, and in the end everything must be as it was without: the same jobs in the same phases
after the same attempts, every process started once, none left. Some are played on the durable store as well,
where the one that takes over reads what is in the file; the last is killed at every line of a commit.

Whoever takes over may die, too, before it has come to rest: at each such point a second death is tried, or at
every N-th of all, and a third control plane takes over.
"""

import argparse
import json
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
    compares: bool = False
    """True if stages are compared with earlier runs."""

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


@dataclass(frozen=True, slots=True)
class Played:
    """What a play has come to."""

    outcome: Outcome
    places: Sequence[str]
    """All points that were passed, in order."""
    recovery: range
    """Numbers of those between the last death and the moment when whoever took over had come to rest."""


@dataclass(frozen=True, slots=True)
class Death:
    """A control plane died, and perhaps the next one while it recovered."""

    times: int
    wrong: str
    """Empty if nothing was."""
    played: Played | None = None
    """None if the play broke off."""


@dataclass(slots=True)
class Sample:
    """Every so manieth of all second deaths, counted on from one play to the next."""

    every: int = 1
    passed: int = 0
    """How many there were to choose from."""

    def of(self, points: range) -> range:
        chosen = points[-self.passed % self.every :: self.every]
        self.passed += len(points)
        return chosen


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
    Scenario(crash_work.skipped, compares=True),
    Scenario(crash_work.searched, pool="1x2"),
)
"""On a store in memory; those of the short size first."""
COMMITTED = "committed"
"""The scenario of a worker that leaves a checkpoint and an artefact."""
ON_DISK = 5
"""How many of the first ones are played on the durable store, in the long size."""


def play(
    scenario: Scenario, at: tuple[int, ...], folder: Path, kind: type[Memory] | type[Disk] = Memory
) -> Played:
    """Die at these of its points. Raises AssertionError if a promise was broken."""
    bomb = Bomb(*at)
    place = kind(folder)
    plane = Plane(
        *crash_jobs.POOL_QUEUES,
        pool=scenario.pool,
        store=place.store,
        state=folder / "state",
        compares=scenario.compares,
    )
    drive = Drive(plane, bomb, place, folder)
    place.begin(bomb)
    plane.engine.trap = bomb
    try:
        expected = scenario.play(drive)
        found = {name: drive.plane.phase(id_) for name, id_ in drive.ids.items()}
        assert found == expected, found
        assert drive.deaths == len(at), f"it died {drive.deaths} times"
        return Played(_outcome(drive), bomb.places, range(max(at, default=0) + 1, drive.recovered + 1))
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


class Trial:
    """A scenario that is played with deaths, each time held against how it goes without any."""

    def __init__(self, scenario: Scenario, folder: Path, kind: type[Memory] | type[Disk] = Memory) -> None:
        self._scenario, self._folder, self._kind = scenario, folder, kind
        self._calm = play(scenario, (), _made(folder / "calm"), kind)

    def deaths(self, chosen: Callable[[range], range] = lambda _: range(0)) -> Iterator[Death]:
        """One at each point in turn, each followed by those of the second ones that are chosen."""
        for at in range(1, len(self._calm.places) + 1):
            first = self._die((at,), self._calm)
            yield first
            if first.played is not None:
                for second in chosen(first.played.recovery):
                    yield self._die((at, second), first.played)

    def _die(self, at: tuple[int, ...], before: Played) -> Death:
        """`before` is a play that goes as this one does until the last death."""
        own = _made(self._folder / "-".join(map(str, at)))
        points = ", then ".join(before.places[number - 1] for number in at)
        try:
            found = play(self._scenario, at, own, self._kind)
        except Exception as error:  # noqa: BLE001 - whatever went wrong after a death is what is looked for
            return Death(len(at), f"killed {points}: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(own)
        same = found.outcome == self._calm.outcome
        wrong = "" if same else f"killed {points}: {found.outcome} in place of {self._calm.outcome}"
        return Death(len(at), wrong, found)


def commits(folder: Path) -> Iterator[Death]:
    """The same for each line of what a worker commits."""
    for make, commit, look in crash_files.COMMITS:
        try:
            for _ in crash_files.deaths(_made(folder / commit.__name__), make, commit, look):
                yield Death(1, "")
        except AssertionError as error:
            yield Death(1, f"killed while it was to {commit.__name__}: {error}")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@dataclass(slots=True)
class Figures:
    """What is counted; what was survived must be as many as were tried."""

    points: dict[str, int] = field(default_factory=dict)
    seconds: int = 0
    """Second deaths."""
    wrong: Counter[int] = field(default_factory=Counter)
    """Plays that went wrong, by how often the control plane died in them."""

    def count(self, name: str, deaths: Iterator[Death]) -> None:
        said = time.monotonic()
        self.points[name] = 0
        for death in deaths:
            if death.times == 1:
                self.points[name] += 1
            else:
                self.seconds += 1
            if death.wrong:
                self.wrong[death.times] += 1
                _say(f"{name}: {death.wrong}")
            if time.monotonic() - said > TELL_EVERY:
                said = time.monotonic()
                _say(f"{name}: {self.points[name]} points, {self.seconds} second deaths in all")


def run(folder: Path, scenarios: int, sample: Sample) -> dict[str, object]:
    """So many scenarios at every point; with the last of all, those on disk too."""
    begun, figures = time.monotonic(), Figures()
    for one in PLAYED[:scenarios]:
        figures.count(one.name, Trial(one, _made(folder / one.name)).deaths(sample.of))
    if scenarios > len(PLAYED):
        figures.count(COMMITTED, commits(_made(folder / COMMITTED)))
        for one in PLAYED[:ON_DISK]:
            name = f"{one.name} on disk"
            figures.count(name, Trial(one, _made(folder / name), Disk).deaths(sample.of))
    points = sum(figures.points.values())
    return {
        "scenarios": min(scenarios, len(PLAYED) + 1),
        "points": points,
        "survived": points - figures.wrong[1],
        "second_points": figures.seconds,
        "second_survived": figures.seconds - figures.wrong[2],
        "second_in_all": sample.passed,
        "seconds": round(time.monotonic() - begun, 1),
        "points_of": figures.points,
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.trust.crash_points")
    options.add_argument("--scenarios", type=int, default=5, help=f"how many of {len(PLAYED) + 1}")
    options.add_argument("--every", type=int, default=1, help="of so many second deaths one is tried")
    given = options.parse_args()
    logging.disable(logging.CRITICAL)  # every death would be told
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), given.scenarios, Sample(given.every))
    print(json.dumps(found))
    survived = (found["survived"], found["second_survived"])
    return 0 if survived == (found["points"], found["second_points"]) else 1


if __name__ == "__main__":
    sys.exit(main())
