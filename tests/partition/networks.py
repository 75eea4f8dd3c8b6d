"""Small networks with what makes a cut hard, and a step of them exported."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional

BATCH = 4


class Residual(nn.Module):
    """Convolutions, statistics that change, changes in place, and a value that is read much later."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.second = nn.Conv2d(6, 6, 3, padding=1)
        self.again = nn.BatchNorm2d(6)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(6, 5)

    def forward(self, pictures: Tensor) -> Tensor:
        early = self.relu(self.norm(self.first(pictures)))
        deep = self.again(self.second(early))
        deep += early
        deep = self.relu(deep).mean((2, 3))
        return self.head(deep) + pictures.mean()  # type: ignore[no-any-return] # modules give Any


class Tied(nn.Module):
    """One matrix at both ends, chance in between, a mask that the code makes."""

    def __init__(self, tied: bool = True, chance: float = 0.3) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.drop = nn.Dropout(chance)
        self.wide = nn.Linear(8, 16)
        self.narrow = nn.Linear(16, 8)
        self.out = nn.Linear(8, 7)
        if tied:
            self.out.weight = self.embed.weight

    def forward(self, words: Tensor) -> Tensor:
        inner = self.embed(words)
        mask = torch.ones(words.shape[1], words.shape[1]).tril() == 0
        mixed, _ = self.mix(inner, inner, inner, attn_mask=mask, need_weights=False)
        inner = self.norm(inner + self.drop(mixed))
        left, right = self.wide(inner).chunk(2, -1)
        inner = inner + self.narrow(torch.cat([left.sigmoid(), right], -1))
        return self.out(inner)  # type: ignore[no-any-return] # modules give Any


def pictures(count: int = BATCH) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, 6, 6, dtype=torch.float64), torch.randint(0, 5, (count,))


def sentences(count: int = BATCH) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 7, (count, 5)), torch.randint(0, 7, (count, 5))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    output = model(batch[0])
    return functional.cross_entropy(output.flatten(0, -2), batch[1].flatten())


class Step(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> Tensor:
        return loss(self.model, batch)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any]]] = {
    "residual": (lambda: Residual().double(), pictures),
    "tied": (lambda: Tied().double(), sentences),
    "sure": (lambda: Tied(chance=0.0).double(), sentences),
    "untied": (lambda: Tied(tied=False).double(), sentences),
}


def exported(model: nn.Module, batch: object) -> ExportedProgram:
    return torch.export.export(Step(model), (batch,), strict=False)


def operators(program: ExportedProgram) -> list[str]:
    return [node.name for node in program.graph.nodes if node.op == "call_function"]


def cuts(program: ExportedProgram, places: list[int]) -> dict[str, int]:
    """The operators in the order of the code, cut at these places."""
    return {name: sum(number >= place for place in places) for number, name in enumerate(operators(program))}


def gradients(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        yield name, parameter.grad
