"""From a user's function to a split that holds, worked out in this process."""

from pathlib import Path

import pytest

from grus.estimation.gpus import VIRTUAL_CONTEXT, virtual
from grus.estimation.script_loader import load
from grus.model.errors import BadInput
from grus.partition.capture_profile import capture
from grus.partition.execution.placement_plan import Pipeline, Plan, Rhythm
from grus.partition.graph import Op, OpGraph
from grus.partition.operators.batch_scaling import between
from grus.partition.parse_devices import at_most
from grus.partition.placement_plan_file import read
from grus.partition.split_child import SplitResult, best_pipeline, split
from grus.partition.topology import Link, alike

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 256)
        self.body = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
    def forward(self, x):
        return functional.linear(self.body(self.words(x)), self.words.weight)

def chain():
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters()),
        "batch": torch.zeros(512, 512),
        "loss": lambda model, batch: model(batch).square().mean(),
    }

def tied():
    model = Tied()
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters()),
        "batch": torch.zeros(8, 16, dtype=torch.long),
        "loss": lambda model, batch: model(batch).square().mean(),
    }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_room(*megabytes: int) -> str:
    """Devices with room for so many MB of tensors each."""
    needed = (at_most(one * 10**6, virtual(10**9)) for one in megabytes)
    return ",".join(f"virtual-{-(-one // 10**6)}MB" for one in needed)


def two_with(megabytes: int) -> str:
    return with_room(megabytes, megabytes)


def asked(target: str, gpus: str, **more: int) -> tuple[SplitResult, list[str]]:
    told: list[str] = []
    return split(told.append, target, gpus, **more), told


def test_a_chain_that_is_too_large_becomes_a_pipeline_of_micro_batches(folder: Path) -> None:
    answer, told = asked("program.py:chain", two_with(25))
    made = read(answer.file)  # reading verifies it
    assert answer.memory > VIRTUAL_CONTEXT + 25_000_000
    assert isinstance(made.plan, Pipeline)
    assert made.plan.schedule is not None
    assert made.plan.schedule.micro_batches > 1
    assert made.plan.seconds < answer.alone
    assert {made.places["linear"], made.places["linear_7"]} == {0, 1}
    assert [words.split()[0] for words in told] == ["reading", "taking", "placing"]


def test_what_fits_one_device_stays_there(folder: Path) -> None:
    answer, _ = asked("program.py:chain", "virtual-1GB", micro=1)
    assert set(read(answer.file).plan.device_of) == {0}


def test_tied_weights_are_held_by_the_stages_at_both_ends(folder: Path) -> None:
    answer, _ = asked("program.py:tied", two_with(12))
    made = read(answer.file)
    assert isinstance(made.plan, Pipeline)
    assert (made.places["embedding"], made.places["linear_8"]) == made.plan.stages


def test_tied_weights_that_fit_only_once_are_placed_operator_by_operator(folder: Path) -> None:
    answer, _ = asked("program.py:tied", with_room(13, 4))
    made = read(answer.file)
    assert isinstance(made.plan, Plan)
    assert set(made.plan.device_of) == {0, 1}


def test_what_fits_nowhere_is_told_with_the_memory_that_would_do(folder: Path) -> None:
    answer, _ = asked("program.py:chain", two_with(5))
    assert answer.file == ""
    assert answer.infeasible is not None
    assert answer.infeasible.least > 5_000_000


def test_a_graph_between_two_sizes_is_nearly_the_one_of_that_size(folder: Path) -> None:
    training = load("program.py:chain", folder)
    gpu = virtual(10**9)
    small, middle, large = (capture(training, size, gpu).graph for size in (32, 128, 512))
    made = between(small, large, (128 - 32) / (512 - 32))
    assert made is not None
    for guess, true in zip(made.ops, middle.ops, strict=True):
        assert guess.permanent == pytest.approx(true.permanent, rel=0.01)
        assert guess.output == pytest.approx(true.output, rel=0.01, abs=64)
        assert guess.seconds == pytest.approx(true.seconds, rel=0.25)
    assert between(small, OpGraph(small.ops[:1], ()), 0.5) is None


def test_a_number_of_micro_batches_that_does_not_divide_the_batch_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="must divide the batch of 512 evenly"):
        asked("program.py:chain", two_with(25), micro=5)


def test_less_in_flight_is_preferred_where_it_costs_nothing() -> None:
    ahead = [Op(f"op-{n}", 1.0, permanent=2, kept=2, output=1, group=f"g{n}") for n in range(4)]
    back = [Op(f"op-{n}.back", 2.0, output=1, group=f"g{n}", backward=True) for n in (3, 2, 1, 0)]
    graph = OpGraph((*ahead, *back), tuple((n, n + 1) for n in range(7)))
    found = best_pipeline(graph, alike([1000, 1000], Link(0.0)), 8)
    assert isinstance(found, Pipeline)
    assert found.schedule is not None
    assert found.schedule.rhythm is Rhythm.ONE_F_ONE_B
