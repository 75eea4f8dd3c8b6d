"""A small network and its pictures, as functions that job files name. No loop, no Grus.

digits.yaml trains it, digits-serve.yaml serves what was trained.
"""

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
    return noisy(4096, seed=0)


def unseen() -> TensorDataset:
    """Others of the same kind, which nothing is learned from."""
    return noisy(512, seed=1)


def noisy(count: int, seed: int) -> TensorDataset:
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=chance)
    return TensorDataset(patterns[labels] + torch.randn(count, 1, SIDE, SIDE, generator=chance), labels)
