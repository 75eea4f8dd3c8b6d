"""What is trained, the same on every runtime: a small regression whose steps take about 50 ms.

The step's time is waited, not computed: with two cores and four workers, computing would measure who gets a
core. What a resize costs (processes, groups, state) is done for real.
"""

import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

STEP = 0.05
"""Seconds of pretended computing in each step."""
BATCH = 30
"""Examples of one worker in one step, on the rivals; with four workers that is the global batch of Grus."""
EXAMPLES = 3600


def tiny() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def examples() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(EXAMPLES, 64, generator=generator)
    return TensorDataset(inputs, inputs @ torch.randn(64, 1, generator=generator))


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(outputs, targets)


def compute() -> None:
    """Pretend the computing of a step, once in each."""
    time.sleep(STEP)
