"""Models by name: those of torchvision where it is installed, the residual networks always.

The residual networks follow He et al., "Deep Residual Learning for Image Recognition" (2015), table 1.
"""

import importlib
import importlib.util

import torch
from torch import nn

from grus.model.errors import BadInput, Mistake

BLOCKS = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}
DEEP = frozenset({"resnet50", "resnet101", "resnet152"})
"""Models whose blocks are bottlenecks."""
WIDENING = 4
"""A bottleneck's output over its inner width."""


def model(name: str, *, channels: int, classes: int) -> nn.Module:
    """Raises BadInput if there is none of that name."""
    known = name.lower().replace("-", "").replace("_", "")
    if known in BLOCKS:
        return ResNet(BLOCKS[known], deep=known in DEEP, channels=channels, classes=classes)
    if importlib.util.find_spec("torchvision") is not None:
        more = importlib.import_module("torchvision.models")
        if name in more.list_models():
            found: nn.Module = more.get_model(name, num_classes=classes)
            return found
    have = ", ".join(BLOCKS)
    raise BadInput(
        [Mistake("model", f"must be one of {have}, or of torchvision where it is installed", name)]
    )


class Block(nn.Module):
    """Residual block: convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, *, deep: bool, stride: int) -> None:
        super().__init__()
        outputs = width * WIDENING if deep else width
        self.layers = nn.Sequential(
            *(_narrow(inputs, width, outputs, stride) if deep else _plain(inputs, width, stride))
        )
        past: list[nn.Module] = []
        if stride != 1 or inputs != outputs:
            past = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]
        self.past = nn.Sequential(*past)
        self.outputs = outputs

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layers(given) + self.past(given))


def _plain(inputs: int, width: int, stride: int) -> list[nn.Module]:
    return [*_convolution(inputs, width, 3, stride), nn.ReLU(inplace=True), *_convolution(width, width, 3)]


def _narrow(inputs: int, width: int, outputs: int, stride: int) -> list[nn.Module]:
    first = [*_convolution(inputs, width, 1), nn.ReLU(inplace=True)]
    return [
        *first,
        *_convolution(width, width, 3, stride),
        nn.ReLU(inplace=True),
        *_convolution(width, outputs, 1),
    ]


def _convolution(inputs: int, outputs: int, side: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, side, stride, padding=side // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class ResNet(nn.Module):
    """A residual network for pictures of any size from 32 × 32."""

    def __init__(self, blocks: tuple[int, ...], *, deep: bool, channels: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, padding=1),
        ]
        inputs = 64
        for stage, count in enumerate(blocks):
            for number in range(count):
                stride = 2 if stage and not number else 1
                block = Block(inputs, 64 << stage, deep=deep, stride=stride)
                layers.append(block)
                inputs = block.outputs
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(inputs, classes)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.layers(given))
        return found
