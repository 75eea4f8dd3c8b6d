"""The ways to run a training on a type of GPU: whole where it fits, otherwise each with its costs."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from grus.estimation.gpus import GpuKind, virtual
from grus.estimation.training_definition import Training
from grus.partition.options import Option, find, options
from grus.partition.parse_devices import Gpu

KIND = GpuKind("tiny", 100_000_000, 10_000_000, 1e12, 1e12, 1e11, 1e10)


def a_training(size: int = 4096) -> Training:
    """Little to learn and much to keep: the batch decides."""
    return Training(
        lambda: nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(8))),
        torch.optim.SGD,
        lambda count: torch.zeros(count, 256),
        lambda model, batch: model(batch).square().mean(),
        size=size,
    )


def found(memory: int, share: float = 1.0, most: int = 4) -> dict[str, Option]:
    kind = replace(KIND, memory=memory)
    return {one.how: one for one in options(a_training(), Gpu(kind, memory, share), most)}


def test_where_it_fits_it_runs_whole_and_nothing_else_is_looked_at() -> None:
    assert [*found(400_000_000)] == ["whole"]


def test_where_it_does_not_every_way_fits_and_says_what_it_costs() -> None:
    whole = found(400_000_000)["whole"]
    ways = found(100_000_000)
    assert {"smaller batch", "split"} <= set(ways)
    assert whole.memory > 100_000_000
    assert all(one.memory <= 100_000_000 for one in ways.values())
    assert ways["split"].gpus >= 2
    assert ways["split"].seconds < whole.seconds  # several compute at once
    assert ways["smaller batch"].seconds >= whole.seconds
    assert ways["smaller batch"].note.endswith(
        f"parts of {4096 // int(ways['smaller batch'].note.split()[0])}"
    )


def test_half_a_gpu_is_half_as_fast() -> None:
    assert found(400_000_000, share=0.5)["whole"].seconds == 2 * found(400_000_000)["whole"].seconds


def test_one_gpu_only_is_never_split() -> None:
    assert "split" not in found(100_000_000, most=1)


def test_virtual_gpus_have_ways_too() -> None:
    gpu = Gpu(virtual(10**9), 10**9)
    assert [one.how for one in options(a_training(64), gpu)] == ["whole"]


def test_a_child_finds_the_ways_on_every_type_and_says_why_there_is_no_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(
        "import torch\n"
        "class Moody(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x) if x.sum() > 0 else x.relu()\n"
        "def make():\n"
        "    model = Moody(256, 256)\n"
        "    loss = lambda model, batch: model(batch).square().mean()\n"
        "    return model, torch.optim.SGD(model.parameters()), torch.zeros(4096, 256), loss\n"
    )
    large, small = asdict(replace(KIND, memory=400_000_000)), asdict(replace(KIND, name="smaller"))
    pool = [{"gpu": large, "most": 1}, {"gpu": small, "most": 2}]
    answer = find(lambda _: None, "program.py:make", None, pool)
    assert answer.batch == 4096
    assert [(one.how, one.type) for one in answer.options] == [
        ("whole", "tiny"),
        ("smaller batch", "smaller"),
    ]
    (note,) = answer.notes
    assert "its path depends on numbers" in note
