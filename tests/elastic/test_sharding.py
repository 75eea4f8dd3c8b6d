"""Workers that each hold a part of the state learn what a plain run learns, and go on at another size."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.elastic import curves
from tests.elastic.nursery import Nursery
from tests.elastic.parts import Team

SMALL: dict[str, Any] = {"samples": 102, "batch": 20, "micro": 4, "epochs": 4, "width": 64}
"""The last step of an epoch has two samples: one micro-batch, in which most workers have no part."""
EQUAL = 1e-5
LARGE: dict[str, Any] = {"program": "weighty", "samples": 12, "batch": 4, "micro": 1, "epochs": 1}
WEIGHTS = 12 * 2 * (512 * 512 + 512) * 4
"""Bytes of that program's model."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture(scope="module")
def plain(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, ...]]:
    """The losses of one worker that holds everything."""
    team = Team(nursery, tmp_path_factory.mktemp("plain") / "run", 1, **SMALL)
    assert team.codes() == [0], team.said()
    return curves.curve(curves.lines(team.folder))


@pytest.mark.parametrize(
    ("strategy", "tolerance"),
    [
        ("zero1", EQUAL),
        ("zero2", EQUAL),
        ("fsdp", EQUAL),
        ("fsdp offload", EQUAL),
        ("zero1 fp16-gradients", 1e-4),
        ("fsdp bf16 checkpoint", 5e-3),
    ],
)
def test_parts_learn_what_the_whole_learns(
    nursery: Nursery, tmp_path: Path, plain: list[tuple[float, ...]], strategy: str, tolerance: float
) -> None:
    team = Team(nursery, tmp_path / "run", 3, **SMALL, options={"strategy": strategy})
    assert team.codes() == [0, 0, 0], team.said()
    assert curves.distance(curves.curve(curves.lines(team.folder)), plain) < tolerance


@pytest.mark.parametrize("strategy", ["zero1", "fsdp"])
def test_a_paused_run_goes_on_with_another_number_of_workers_and_whole_too(
    nursery: Nursery, tmp_path: Path, plain: list[tuple[float, ...]], strategy: str
) -> None:
    """Three workers in parts, then two, then one that holds everything: one run."""
    options = {"strategy": strategy, "checkpoint": str(tmp_path / "kept")}
    folder = tmp_path / "run"
    for attempt, workers in enumerate((3, 2, 1), 1):
        folder.mkdir(exist_ok=True)
        (folder / "gate").write_text(str(6 * attempt))
        team = Team(nursery, folder, workers, attempt=attempt, **SMALL, options=options)
        if workers > 1:
            team.until_step(6 * attempt)
            for pid in team.pids:
                os.kill(pid, signal.SIGTERM)
        (folder / "gate").unlink()
        assert team.codes() == [0] * workers, team.said()
    lines = curves.lines(folder)
    assert {line.world for own in lines.values() for line in own} == {1, 2, 3}
    assert curves.distance(curves.curve(lines), plain) < EQUAL


def test_a_lost_part_ends_all_who_hold_the_others(nursery: Nursery, tmp_path: Path) -> None:
    """A part of the state is gone: nobody may go on as if it were not."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "gate").write_text("3")
    team = Team(nursery, folder, 2, **SMALL, options={"strategy": "fsdp"})
    team.until_step(3)
    os.kill(team.pids[1], signal.SIGKILL)
    (folder / "gate").unlink()
    codes = team.codes()
    assert codes[1] == -signal.SIGKILL
    assert codes[0] > 0


def peak(nursery: Nursery, folder: Path, workers: int, strategy: str) -> int:
    """Bytes of real memory that the fullest worker took for training, beyond what it had before."""
    team = Team(nursery, folder, workers, **LARGE, options={"strategy": strategy})
    assert team.codes() == [0] * workers, team.said()
    return max(int(json.loads(path.read_text())["peak"]) for path in (folder / "memory").iterdir())


def test_each_word_takes_its_part_of_real_memory_away_and_more_workers_more_of_it(
    nursery: Nursery, tmp_path: Path
) -> None:
    ways = [("ddp", 2), ("zero1", 2), ("zero2", 2), ("fsdp", 2), ("fsdp", 4)]
    found = [peak(nursery, tmp_path / f"{how}{workers}", workers, how) for how, workers in ways]
    assert found == sorted(found, reverse=True), found
    assert len(set(found)) == len(found)
    state = 4 * WEIGHTS  # and gradients, and Adam's two numbers for each
    assert found[-2] - found[-1] == pytest.approx(state / 2 - state / 4, rel=0.2)
