"""A small network and its pictures, as functions that a job file names: see digits.yaml. No loop, no Grus."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

CLASSES, SIDE = 10, 12


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (SIDE // 2) ** 2, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )


def pictures() -> TensorDataset:
    """Each class is a pattern of its own under noise: (picture, class) pairs."""
    chance = torch.Generator().manual_seed(0)
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=chance)
    labels = torch.randint(CLASSES, (4096,), generator=chance)
    return TensorDataset(patterns[labels] + torch.randn(4096, 1, SIDE, SIDE, generator=chance), labels)
