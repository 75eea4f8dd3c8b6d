"""A training with two branches and two heads, for tests that spread it over two GPUs by a plan."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import TensorDataset

SAMPLES, BATCH = 44, 16
TARGET = f"{Path(__file__).name}:make"


class Branches(nn.Module):
    """Each branch has a head of its own, and one reads both branches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 8)
        self.left = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))
        self.right = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.kind, self.size = nn.Linear(16, 3), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        start = torch.relu(self.stem(x))
        left, right = self.left(start), self.right(start)
        return self.kind(torch.cat([left, right], 1)), self.size(right)


def make(epochs: int = 2) -> dict[str, Any]:
    def loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        x, kind, size = batch
        kinds, sizes = model(x)
        return cross_entropy(kinds, kind) + mse_loss(sizes, size)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        rows = torch.randn(SAMPLES, 6, dtype=torch.float64)
    data = TensorDataset(rows, rows[:, :3].argmax(1), rows[:, 3:4] * rows[:, 4:5])
    return {
        "model": lambda: Branches().double(),
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
        "batch": data[:BATCH],
        "loss": loss,
        "data": data,
        "epochs": epochs,
        "seed": 3,
    }


def long() -> dict[str, Any]:
    """Never done before somebody pauses it."""
    return make(epochs=100_000)
