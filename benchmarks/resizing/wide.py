"""A model whose step has a real share of exchange, for what a runtime adds to an undisturbed step."""

import torch
from torch import nn
from torch.utils.data import Dataset

BATCH = 64
"""Examples of one worker in one step."""
WIDTH = 768
LAYERS = 4
EPOCH = 1_000_000
MADE = 4096


def model() -> nn.Module:
    """2.4 million parameters: 9.5 MB to exchange in each step."""
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


class Examples(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A long epoch made of few examples, so that none ends while steps are timed."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self._inputs = torch.randn(MADE, WIDTH, generator=generator)
        self._targets = torch.randint(10, (MADE,), generator=generator)

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._inputs[index % MADE], self._targets[index % MADE]
