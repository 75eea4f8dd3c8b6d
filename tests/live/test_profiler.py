"""What real jobs do on virtual GPUs is recognised from their telemetry, and told while it is true.

All jobs run side by side in one pool, so that the waiting is shared: rhythms need some periods to be seen,
and a hang is one only after a while.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import grus
from grus.api.profile_wire import TagOut
from grus.api.wire_types.job import JobOut
from tests.live.pool import PATIENCE, LivePool

PROGRAM = Path(__file__).with_name("rhythm_program.py")
SOURCE = str(Path(grus.__file__).parents[1])
"""Jobs run with the very Grus that is tested."""
PERIODS = {"quick": 2.0, "middle": 3.3, "slow": 5.4}
NOTICED = 120.0
"""Seconds in which a hang must be told."""


class Watched(LivePool):
    """Eight GPUs: three jobs with rhythms of their own, two that hang when told to, a training of three."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "1x8x2GB")
        self.more = "[telemetry]\nhz = 5\n"
        self.folder = folder

    def works(self, name: str, period: float, *more: str) -> None:
        self.runs(name, PROGRAM, str(period), *more)

    def runs(self, name: str, program: Path, *words: str, **more: object) -> None:
        self.submit(name, run=[sys.executable, str(program), *words], env={"PYTHONPATH": SOURCE}, **more)  # type: ignore[arg-type]  # the fields of a job

    def tag(self, name: str) -> TagOut | None:
        return self[name].tag

    def gpu_tag(self, name: str) -> TagOut | None:
        """Of the one GPU that a job holds, as the pool shows it."""
        (device,) = [device for seat in self[name].seats for device in seat.devices]
        return self.gpu_tags()[device]

    def gpu_tags(self) -> dict[str, TagOut | None]:
        return {gpu.id: gpu.tag for node in self.grus.nodes() for gpu in node.gpus}

    def watch(self, true: Callable[[], bool], what: str, seconds: float) -> None:
        """Look each time that something was measured, until it is so."""
        deadline = time.monotonic() + seconds
        for _ in self.grus.watch_usage():
            if true():
                return
            tags = {name: self.tag(name) for name in self.handles}
            assert time.monotonic() < deadline, f"in {seconds:g} s it did not happen: {what}; {tags}"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """All are at work, two were seen to be and hang from now on."""
    with Watched(tmp_path_factory.mktemp("watched")) as pool:
        hang = pool.folder / "hang"
        # One is told by its silence alone, the other by steps that stop though it is as busy as before.
        pool.works("sleeps", 2.5, "--until", str(hang), "--then", "sleep")
        pool.works("spins", 1.0, "--steps", "--until", str(hang), "--then", "spin")
        for name, period in PERIODS.items():
            pool.works(name, period)
        pool.watch(
            lambda: in_rhythm(pool.tag("sleeps"), 2.5) and is_training(pool.tag("spins")),
            "both are seen to work",
            PATIENCE,
        )
        hang.touch()
        pool.runs("three", PROGRAM.with_name("straggling_program.py"), gpus="2..3", launch="per-gpu")
        yield pool


def in_rhythm(tag: TagOut | None, period: float) -> bool:
    return (
        tag is not None
        and tag.kind == "training"
        and tag.period is not None
        and abs(tag.period / period - 1) < 0.1
    )


def told(tag: TagOut | None) -> str:
    return "" if tag is None else tag.note


def is_training(tag: TagOut | None) -> bool:
    return tag is not None and tag.kind == "training"


def hangs(tag: TagOut | None) -> bool:
    return tag is not None and tag.kind == "training" and tag.hung_since is not None


def test_three_jobs_are_told_apart_by_their_rhythms_and_their_gpus_are_tagged(pool: Watched) -> None:
    pool.watch(
        lambda: all(
            in_rhythm(pool.tag(name), period) and in_rhythm(pool.gpu_tag(name), period)
            for name, period in PERIODS.items()
        ),
        "each job and its GPU are tagged with their own period",
        PATIENCE,
    )


def test_jobs_that_hang_are_noticed_whether_they_sleep_or_spin_and_the_others_are_not_suspected(
    pool: Watched,
) -> None:
    pool.watch(
        lambda: hangs(pool.tag("sleeps")) and hangs(pool.tag("spins")), "both are told to hang", NOTICED
    )
    assert not any(hangs(pool.tag(name)) for name in PERIODS)


def test_the_rank_that_holds_up_a_synchronous_training_is_named(pool: Watched) -> None:
    """All ranks step together; which one is slow only their own seconds tell."""
    pool.watch(
        lambda: "is a straggler" in told(pool.tag("three")), "a rank of the training straggles", PATIENCE
    )
    (slow,) = [one.id for one in pool.grus.workers(pool.handles["three"].id) if one.number == 1]
    assert f"worker {slow} is a straggler" in told(pool.tag("three"))


def test_tags_vanish_when_the_jobs_end(pool: Watched) -> None:
    assert any(pool.gpu_tags().values())
    for handle in pool.handles.values():
        handle.stop()
    ended: list[JobOut] = [handle.wait(PATIENCE) for handle in pool.handles.values()]
    assert {job.phase for job in ended} == {"stopped"}
    pool.watch(
        lambda: not any(pool.gpu_tags().values()) and not any(pool[name].tag for name in pool.handles),
        "no job and no GPU has a tag",
        PATIENCE,
    )
