"""Workers that each hold a part of the state learn what a plain run learns, and go on at another size."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from grus.elastic import audit
from grus.estimation.gpus import find
from grus.estimation.strategy_costs import Strategist
from grus.estimation.training_definition import Training
from grus.model.distributed_options import parse
from tests.elastic import curves, programs
from tests.elastic.parts import Team
from tests.fork_server import ForkServer

SMALL: dict[str, Any] = {"samples": 102, "batch": 20, "micro": 4, "epochs": 4, "width": 64}
"""The last step of an epoch has two samples: one micro-batch, in which most workers have no part."""
EQUAL = 1e-5
LARGE: dict[str, Any] = {"program": "weighty", "samples": 12, "batch": 4, "micro": 1, "epochs": 1}
WAYS = [
    ("ddp", 2),
    ("fp16-gradients", 2),
    ("powersgd", 2),
    ("zero1", 2),
    ("zero2", 2),
    ("fsdp", 2),
    ("fsdp", 4),
]


def pairs(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 512), torch.randn(count, 512)


def distance(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    found: Tensor = (model(batch[0]) - batch[1]).square().mean()
    return found


@pytest.fixture(scope="module")
def plain(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, ...]]:
    """The losses of one worker that holds everything."""
    team = Team(forks, tmp_path_factory.mktemp("plain") / "run", 1, **SMALL)
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
    forks: ForkServer, tmp_path: Path, plain: list[tuple[float, ...]], strategy: str, tolerance: float
) -> None:
    team = Team(forks, tmp_path / "run", 3, **SMALL, options={"strategy": strategy})
    assert team.codes() == [0, 0, 0], team.said()
    assert curves.distance(curves.curve(curves.lines(team.folder)), plain) < tolerance
    assert audit.check(team.folder / "audit", SMALL["samples"], SMALL["epochs"]).wrong == ()


@pytest.mark.parametrize("strategy", ["", "zero1", "fsdp"])
def test_a_paused_run_goes_on_with_another_number_of_workers_and_whole_too(
    forks: ForkServer, tmp_path: Path, plain: list[tuple[float, ...]], strategy: str
) -> None:
    """Three workers in parts (or each with all of it), then two, then one that holds everything: one run."""
    options = {"strategy": strategy, "checkpoint": str(tmp_path / "kept")}
    folder = tmp_path / "run"
    for attempt, workers in enumerate((3, 2, 1), 1):
        folder.mkdir(exist_ok=True)
        (folder / "gate").write_text(str(6 * attempt))
        team = Team(forks, folder, workers, attempt=attempt, **SMALL, options=options)
        if workers > 1:
            team.until_step(6 * attempt)
            for pid in team.pids:
                os.kill(pid, signal.SIGTERM)
        (folder / "gate").unlink()
        assert team.codes() == [0] * workers, team.said()
    lines = curves.lines(folder)
    assert {line.world for own in lines.values() for line in own} == {1, 2, 3}
    assert curves.distance(curves.curve(lines), plain) < EQUAL
    found = audit.check(folder / "audit", SMALL["samples"], SMALL["epochs"])
    assert (found.wrong, found.teams, found.void) == ((), 3, 0)  # each attempt has a team 1 of its own


def test_a_lost_part_ends_all_who_hold_the_others(forks: ForkServer, tmp_path: Path) -> None:
    """A part of the state is gone: nobody may go on as if it were not."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "gate").write_text("3")
    team = Team(forks, folder, 2, **SMALL, options={"strategy": "fsdp"})
    team.until_step(3)
    os.kill(team.pids[1], signal.SIGKILL)
    (folder / "gate").unlink()
    codes = team.codes()
    assert codes[1] == -signal.SIGKILL
    assert codes[0] > 0


def measured(forks: ForkServer, folder: Path, workers: int, strategy: str) -> tuple[int, int]:
    """Bytes of real memory that the fullest worker took for training, and bytes that one sent in a step."""
    task = {**LARGE, "micro": LARGE["batch"] // workers, "audit": False}
    team = Team(forks, folder, workers, **task, options={"strategy": strategy})
    assert team.codes() == [0] * workers, team.said()
    found = [json.loads(path.read_text()) for path in (folder / "memory").iterdir()]
    return max(one["peak"] for one in found), max(one["sent"] for one in found)


def expected(strategist: Strategist, workers: int, strategy: str) -> tuple[int, int]:
    held = strategist.held(parse(strategy), workers)
    return held.trace.peak, held.sent


def test_each_word_takes_the_memory_and_sends_the_bytes_that_its_estimate_says(
    forks: ForkServer, tmp_path: Path
) -> None:
    """Real memory of real processes; what Python and the libraries take beside it is alike for all."""
    training = Training(programs.Weighty, lambda own: Adam(own, 1e-4), pairs, distance, size=2)
    strategist = Strategist(training, find("virtual-4GB"))
    real = {way: measured(forks, tmp_path / f"{way[0]}{way[1]}", way[1], way[0]) for way in WAYS}
    said = {way: expected(strategist, way[1], way[0]) for way in WAYS}
    for way in WAYS:
        assert real[way][1] == pytest.approx(said[way][1], rel=0.05), way
        saved = real[WAYS[0]][0] - real[way][0]
        assert saved == pytest.approx(said[WAYS[0]][0] - said[way][0], abs=0.1 * said[WAYS[0]][0]), way
