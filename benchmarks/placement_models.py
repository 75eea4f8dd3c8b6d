"""The trainings whose operators are captured and placed: Inception-v3, a Transformer, GPT-2 and ResNet-50.

Built by hand from the papers that describe them: Inception-v3 (arXiv 1512.00567, without the auxiliary head),
the base Transformer (arXiv 1706.03762), GPT-2 with 12 blocks, ResNet-50 (arXiv 1512.03385).
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from benchmarks.memory_models import Decoder, head, resnet
from grus.estimation.training_definition import Training, criterion

Size = int | tuple[int, int]


class Branches(nn.Module):
    """Several ways for the same input, their channels beside each other."""

    def __init__(self, *ways: nn.Module) -> None:
        super().__init__()
        self.ways = nn.ModuleList(ways)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([way(x) for way in self.ways], 1)


def conv(inputs: int, outputs: int, kernel: Size, stride: int = 1, padded: bool = True) -> nn.Sequential:
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (sides[0] // 2, sides[1] // 2) if padded else (0, 0)
    layer = nn.Conv2d(inputs, outputs, sides, stride, padding, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs, eps=0.001), nn.ReLU(inplace=True))


def pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(inputs, outputs, 1))


def small(inputs: int, pool: int) -> nn.Module:
    """Figure 5 of the paper: filters of 5 by 5, and as two of 3 by 3."""
    return Branches(
        conv(inputs, 64, 1),
        nn.Sequential(conv(inputs, 48, 1), conv(48, 64, 5)),
        nn.Sequential(conv(inputs, 64, 1), conv(64, 96, 3), conv(96, 96, 3)),
        pooled(inputs, pool),
    )


def long(inputs: int, width: int) -> nn.Module:
    """Figure 6: filters of 7 by 7 as rows and columns."""
    row, column = (1, 7), (7, 1)
    twice = (conv(width, width, column), conv(width, width, row), conv(width, width, column))
    return Branches(
        conv(inputs, 192, 1),
        nn.Sequential(conv(inputs, width, 1), conv(width, width, row), conv(width, 192, column)),
        nn.Sequential(conv(inputs, width, 1), *twice, conv(width, 192, row)),
        pooled(inputs, 192),
    )


def wide(inputs: int) -> nn.Module:
    """Figure 7: rows and columns beside each other."""
    return Branches(
        conv(inputs, 320, 1),
        nn.Sequential(conv(inputs, 384, 1), Branches(conv(384, 384, (1, 3)), conv(384, 384, (3, 1)))),
        nn.Sequential(
            conv(inputs, 448, 1),
            conv(448, 384, 3),
            Branches(conv(384, 384, (1, 3)), conv(384, 384, (3, 1))),
        ),
        pooled(inputs, 192),
    )


def inception_v3() -> nn.Module:
    conv2 = partial(conv, stride=2, padded=False)
    # Figure 10: the grid is halved on several ways at once.
    narrow = (conv(288, 64, 1), conv(64, 96, 3), conv2(96, 96, 3))
    first = Branches(conv2(288, 384, 3), nn.Sequential(*narrow), nn.MaxPool2d(3, 2))
    thin = (conv(768, 192, 1), conv(192, 192, (1, 7)), conv(192, 192, (7, 1)), conv2(192, 192, 3))
    short = (conv(768, 192, 1), conv2(192, 320, 3))
    second = Branches(nn.Sequential(*short), nn.Sequential(*thin), nn.MaxPool2d(3, 2))
    return nn.Sequential(
        *(conv2(3, 32, 3), conv(32, 32, 3, padded=False), conv(32, 64, 3), nn.MaxPool2d(3, 2)),
        *(conv(64, 80, 1), conv(80, 192, 3, padded=False), nn.MaxPool2d(3, 2)),
        *(small(192, 32), small(256, 64), small(288, 64), first),
        *(long(768, 128), long(768, 160), long(768, 160), long(768, 192), second),
        *(wide(1280), wide(2048), *head(2048, 0.5)),
    )


class Translator(nn.Module):
    """The base Transformer; one table of words for both languages and the output."""

    def __init__(self, words: int = 37_000, width: int = 512, longest: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.body = nn.Transformer(width, 8, 6, 6, 2048, 0.1, batch_first=True)

    def forward(self, sentences: tuple[Tensor, Tensor]) -> Tensor:
        source, target = map(self._known, sentences)
        mask = self.body.generate_square_subsequent_mask(target.shape[1])
        found = self.body(source, target, tgt_mask=mask, tgt_is_causal=True)
        return functional.linear(found, self.words.weight)

    def _known(self, sentence: Tensor) -> Tensor:
        known: Tensor = self.words(sentence) + self.places(torch.arange(sentence.shape[1]))
        return known


def _pictures(side: int, count: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(count, 3, side, side), torch.zeros(count, dtype=torch.long)


def _sentences(length: int, count: int) -> tuple[Tensor, Tensor]:
    words = torch.zeros(count, length, dtype=torch.long)
    return words, words


def _pairs(length: int, count: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    words = torch.zeros(count, length, dtype=torch.long)
    return (words, words), words


def _next_word(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def _sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, 0.1, momentum=0.9)


def _adam(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return Adam(parameters, 1e-4)


TRAININGS: dict[str, Callable[[], Training]] = {
    "Inception-v3": lambda: Training(
        inception_v3, _sgd, partial(_pictures, 299), criterion(functional.cross_entropy), 32
    ),
    "Transformer": lambda: Training(Translator, _adam, partial(_pairs, 64), criterion(_next_word), 64),
    "GPT-2": lambda: Training(
        partial(Decoder, depth=12), _adam, partial(_sentences, 512), criterion(_next_word), 8
    ),
    "ResNet-50": lambda: Training(
        partial(resnet, (3, 4, 6, 3)), _sgd, partial(_pictures, 224), criterion(functional.cross_entropy), 32
    ),
}
