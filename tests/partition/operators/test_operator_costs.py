"""What operators cost, counted on tensors without data."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, fx, nn

from grus.estimation.roofline import BANDWIDTH_REACHED, FLOPS_REACHED, LAUNCH, OperatorCost
from grus.partition.operators.operator_costs import works


@dataclass(frozen=True)
class A100:
    """Figures of NVIDIA's data sheet: FLOP/s without tensor cores, with them at 16 bits, bytes/s."""

    flops: float = 19.5e12
    half_flops: float = 312e12
    bandwidth: float = 1.555e12


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 16)
        self.layer = nn.Linear(16, 32)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.layer(self.words(x))
        return hidden.transpose(0, 1).relu().sum()


def exported(dtype: torch.dtype = torch.float32) -> fx.GraphModule:
    model = Small().to(dtype)
    program = torch.export.export(model, (torch.zeros(4, 8, dtype=torch.long),), strict=False)
    module: fx.GraphModule = program.graph_module
    return module


def test_products_count_their_multiplications_and_everything_its_bytes() -> None:
    found = works(exported())
    rows = 4 * 8
    assert found["linear"].flops == 2 * rows * 16 * 32
    assert found["linear"].moved == 4 * (rows * 16 + 16 * 32 + 32 + rows * 32)
    assert found["relu"] == OperatorCost(0, 2 * 4 * rows * 32)


def test_a_view_takes_no_time_and_a_lookup_reads_only_what_it_returns() -> None:
    found = works(exported())
    assert found["transpose"].view
    assert found["transpose"].seconds(A100()) == 0.0
    assert found["embedding"].moved == 2 * 4 * 8 * 16 * 4 + 8 * 4 * 8


def test_sixteen_bits_are_recognised() -> None:
    assert works(exported(torch.bfloat16))["linear"].half
    assert not works(exported())["linear"].half


def test_an_operator_takes_as_long_as_the_slower_of_computing_and_moving() -> None:
    gpu = A100()
    computes, moves = OperatorCost(flops=10**12, moved=1), OperatorCost(flops=1, moved=10**10)
    assert computes.seconds(gpu) == pytest.approx(LAUNCH + 1e12 / (FLOPS_REACHED * gpu.flops))
    assert moves.seconds(gpu) == pytest.approx(LAUNCH + 1e10 / (BANDWIDTH_REACHED * gpu.bandwidth))
    assert OperatorCost(10**12, 1, half=True).seconds(gpu) < computes.seconds(gpu) / 10
    assert computes.backward().seconds(gpu) - LAUNCH == pytest.approx(2 * (computes.seconds(gpu) - LAUNCH))
