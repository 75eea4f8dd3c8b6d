"""Small trainings that have what makes captures hard: branches, tied weights, statistics, chance, aliases."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from grus.estimation.training_definition import Training


class Rates:
    """A GPU with round figures."""

    flops = 10e12
    half_flops = 20e12
    bandwidth = 500e9


GPU = Rates()


class Branches(nn.Module):
    """Pictures: a block whose branches meet again, statistics, activations in place, a shortcut in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.left = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.right = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.MaxPool2d(3, 1, 1))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        known = self.first(x)
        right = self.right(known)
        right += known
        both = torch.cat([self.left(known), right], 1)
        result: Tensor = self.head(both.mean((2, 3)))
        return result


class Tied(nn.Module):
    """Words: the output layer is the table of words; places, a mask, attention and chance."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.mixed, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm, self.drop = nn.LayerNorm(16), nn.Dropout(dropout)
        self.register_buffer("hidden", torch.ones(8, 8).triu(1).bool())

    def forward(self, x: Tensor) -> Tensor:
        known = self.words(x) + torch.arange(16, device=x.device) / 16
        query, key, value = self.mixed(self.norm(known)).chunk(3, -1)
        seen = (query @ key.transpose(-2, -1)).masked_fill(self.get_buffer("hidden"), -1e9).softmax(-1)
        known = known + self.drop(self.out(self.drop(seen) @ value))
        return functional.linear(known, self.words.weight)


class Awkward(nn.Module):
    """Changes in place through views, a constant of its own, a part without gradients, parts of tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 10)
        self.step = torch.arange(8.0)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        known = self.first(x) + self.step.to(x.dtype)
        seen = torch.tanh(known)
        known[:, 0] += seen[:, 1]
        with torch.no_grad():
            self.get_buffer("count").add_(1)
            mean = known.mean()
        value, place = (known - mean).sort(-1)
        one, two = value.split(4, -1)
        mixed = torch.cat([two, one], -1) + known * torch.tensor(3.0, dtype=x.dtype)
        result: Tensor = self.last(mixed + place * 0.1)
        return result


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.body(x)[0][:, -1])
        return result


def pictures(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 3, 6, 6), torch.randint(0, 10, (size,))


def sentences(size: int) -> dict[str, Tensor]:
    return {"x": torch.randint(0, 40, (size, 8)), "y": torch.randint(0, 40, (size, 8))}


def rows(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 8), torch.randint(0, 10, (size,))


def series(size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 5, 8), torch.randint(0, 10, (size,))


def of_pairs(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def of_sentences(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())


def adam(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return Adam(parameters)


def sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, lr=0.1)


TRAININGS: dict[str, Training] = {
    "branches": Training(Branches, adam, pictures, of_pairs, 4),
    "tied": Training(Tied, adam, sentences, of_sentences, 4),
    "awkward": Training(Awkward, adam, rows, of_pairs, 4),
    "recurrent": Training(Recurrent, adam, series, of_pairs, 4),
}


def of_rows(
    model: Callable[[], nn.Module], loss: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor] = of_pairs
) -> Training:
    return Training(model, sgd, rows, loss, 4)
