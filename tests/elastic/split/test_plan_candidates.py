"""Ways to hold a training: as it is where that is enough, and lighter ones where it is not."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from grus.elastic.split import plan_candidates
from grus.elastic.split.plan_candidates import ExecutionPlanResult
from grus.estimation.gpus import GpuKind, find, virtual

DEEP = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    def forward(self, x): return x + self.layers(x)

def network(): return nn.Sequential(*(Block() for _ in range(8)), nn.Linear(64, 2))
def wide():
    return nn.Sequential(nn.Linear(64, 2000), *(nn.Linear(2000, 2000) for _ in range(6)), nn.Linear(2000, 2))
def many(): return [(torch.ones(64 * 512)[:64], 0) for _ in range(4000)]
class Pairs:
    def __len__(self): return 1_000_000
    def __getitem__(self, number): return torch.zeros(64), number % 2
def pairs(): return Pairs()
def make():
    batch = (torch.zeros(4, 64), torch.zeros(4, dtype=torch.long))
    return network, torch.optim.SGD, batch, nn.CrossEntropyLoss()
"""
SECTION = {
    "model": "deep_blocks.py:network",
    "data": "deep_blocks.py:pairs",
    "loss": "cross_entropy",
    "optimizer": "adam",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "deep_blocks.py").write_text(DEEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(
    section: dict[str, object] | None, kinds: Sequence[GpuKind], target: str = ""
) -> ExecutionPlanResult:
    return plan_candidates.find(
        lambda _: None, section, target, [{"gpu": asdict(kind), "count": 2} for kind in kinds]
    )


@pytest.mark.usefixtures("folder")
def test_a_training_that_fits_easily_is_held_as_it_is() -> None:
    answer = found({**SECTION, "batch": 8}, [find("RTX3060")])
    assert [(way.gpus, way.how, way.speed) for way in answer.ways] == [(1, (), 1.0)]
    assert answer.ways[0].memory == answer.estimates[0].upper < find("RTX3060").memory / 2


@pytest.mark.usefixtures("folder")
def test_one_that_takes_most_of_a_gpu_can_be_held_lighter_and_slower() -> None:
    answer = found({**SECTION, "batch": 100_000}, [virtual(2 * 10**9)])
    plain, lighter = answer.ways[:2]
    assert (plain.how, lighter.how) == ((), ("checkpoint",))
    assert lighter.memory < 0.7 * plain.memory
    assert lighter.speed < plain.speed == 1.0


@pytest.mark.usefixtures("folder")
def test_strategies_that_are_asked_for_are_part_of_every_way() -> None:
    answer = found({**SECTION, "batch": 100_000, "strategy": "bf16"}, [virtual(10**9)])
    assert [way.how for way in answer.ways[:2]] == [("bf16",), ("bf16", "checkpoint")]


@pytest.mark.usefixtures("folder")
def test_what_is_found_holds_on_every_type_of_the_pool() -> None:
    kinds = [find("RTX3060"), find("H100")]
    alone = [found({**SECTION, "batch": 8}, [kind]).ways[0].memory for kind in kinds]
    assert found({**SECTION, "batch": 8}, kinds).ways[0].memory == max(alone)


@pytest.mark.usefixtures("folder")
def test_a_script_is_held_as_it_is_however_large() -> None:
    answer = found(None, [virtual(3 * 10**8)], "deep_blocks.py:make")
    assert [way.how for way in answer.ways] == [()]


@pytest.mark.usefixtures("folder")
def test_functions_that_are_not_there_are_mistakes_and_no_ways() -> None:
    answer = found({**SECTION, "model": "deep_blocks.py:net"}, [find("T4")])
    assert not answer.ways
    assert [one.field for one in answer.mistakes] == ["train.model"]


@pytest.mark.usefixtures("folder")
def test_one_that_no_gpu_holds_is_split_over_the_fewest_that_do() -> None:
    section = {**SECTION, "model": "deep_blocks.py:wide", "batch": 8}
    (plain,) = found(section, [virtual(10**10)]).ways
    smaller = virtual(plain.memory - 50_000_000)
    *others, split = found(section, [smaller]).ways
    assert (split.gpus, split.how) == (2, ("split",))
    assert split.memory <= smaller.memory < min(way.memory for way in others)
    assert split.speed < min(way.speed for way in others)


@pytest.mark.usefixtures("folder")
def test_one_that_cannot_be_held_says_what_its_parts_would_need() -> None:
    answer = found({**SECTION, "model": "deep_blocks.py:wide", "batch": 8}, [virtual(400_000_000)])
    assert all(way.gpus == 1 for way in answer.ways)
    assert "it cannot be split: the parts need up to" in answer.notes[-1]


@pytest.mark.usefixtures("folder")
def test_strategies_that_change_the_result_are_never_chosen_by_grus() -> None:
    answer = found({**SECTION, "model": "deep_blocks.py:wide"}, [replace(find("T4"), memory=500_000_000)])
    assert {word for way in answer.ways for word in way.how} <= {"checkpoint", "offload", "split"}
    assert ("checkpoint", "offload") in [way.how for way in answer.ways] or ("offload",) in [
        way.how for way in answer.ways
    ]


@pytest.mark.usefixtures("folder")
def test_a_split_that_is_asked_for_is_the_only_way() -> None:
    answer = found({**SECTION, "strategy": "split", "batch": 8}, [virtual(2 * 10**9)])
    assert [(way.gpus, way.how) for way in answer.ways] == [(2, ("split",))]


@pytest.mark.usefixtures("folder")
def test_data_counts_where_a_process_stands_for_a_gpu() -> None:
    small, large = (
        found({**SECTION, "data": f"deep_blocks.py:{name}", "batch": 8}, [virtual(4 * 10**9)]).ways[0].memory
        for name in ("pairs", "many")
    )
    # The data take 524 MB; some of it may lie in memory that earlier work of this process left behind.
    assert large - small > 200_000_000


@pytest.mark.usefixtures("folder")
def test_a_batch_larger_than_the_data_is_a_mistake() -> None:
    answer = found({**SECTION, "batch": 2_000_000}, [find("T4")])
    assert [str(one) for one in answer.mistakes] == [
        "train.batch: is more than the 1000000 samples that the data has (found 2000000)"
    ]


@pytest.mark.usefixtures("folder")
def test_a_section_without_data_is_a_mistake() -> None:
    answer = found({"make": "deep_blocks.py:make"}, [find("T4")])
    assert [one.field for one in answer.mistakes] == ["train.data"]
