"""The models of the memory benchmark, built by hand from the papers that describe them.

Shapes follow the papers and the usual ImageNet heads of 1000 classes; MobileNetV3, RegNet and ConvNeXt with
the details (order, bias, in-place activations) that decide how much memory the backward pass keeps.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 1000
Activation = Callable[[], nn.Module]


def relu() -> nn.Module:
    return nn.ReLU(inplace=True)


def relu6() -> nn.Module:
    return nn.ReLU6(inplace=True)


def hardswish() -> nn.Module:
    return nn.Hardswish(inplace=True)


def unit(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: Activation | None = relu
) -> nn.Sequential:
    """A convolution without bias, a normalisation and, unless None, an activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


def head(width: int, dropout: float = 0.0) -> list[nn.Module]:
    """Average, then classes."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *drop, nn.Linear(width, CLASSES)]


class Residual(nn.Module):
    """The body's result and the input, passed through `shortcut`, added."""

    def __init__(
        self, body: nn.Module, shortcut: nn.Module | None = None, act: Activation | None = None
    ) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut
        self.act = act() if act else None

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.shortcut is None else self.shortcut(x)
        result: Tensor = self.body(x) + kept
        return result if self.act is None else self.act(result)


class Squeeze(nn.Module):
    """Channels weighed by what the whole picture shows (squeeze and excitation)."""

    def __init__(self, width: int, squeezed: int, gate: Activation) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, width, 1),
            gate(),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x) * x
        return result


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    width = 3
    for stage in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
        for outputs in stage:
            layers += [nn.Conv2d(width, outputs, 3, padding=1), relu()]
            width = outputs
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        *(nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout()),
        *(nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout()),
        nn.Linear(4096, CLASSES),
    )


def resnet(depths: Sequence[int]) -> nn.Module:
    """With bottlenecks: 50, 101 and 152 layers differ in depths only."""
    layers: list[nn.Module] = [unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for number in range(depth):
            stride = 2 if stage and not number else 1
            body = nn.Sequential(
                unit(inputs, width, 1), unit(width, width, 3, stride), unit(width, 4 * width, 1, act=None)
            )
            shortcut = None if number else unit(inputs, 4 * width, 1, stride, act=None)
            layers.append(Residual(body, shortcut, relu))
            inputs = 4 * width
    return nn.Sequential(*layers, *head(inputs))


def inverted(
    inputs: int,
    wide: int,
    outputs: int,
    kernel: int,
    stride: int,
    act: Activation,
    middle: Sequence[nn.Module] = (),
) -> nn.Module:
    """Widened, filtered channel by channel, narrowed again."""
    body = nn.Sequential(
        *([unit(inputs, wide, 1, act=act)] if wide != inputs else []),
        unit(wide, wide, kernel, stride, wide, act),
        *middle,
        unit(wide, outputs, 1, act=None),
    )
    return Residual(body) if stride == 1 and inputs == outputs else body


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [unit(3, 32, 3, 2, act=relu6)]
    inputs = 32
    for factor, width, depth, first in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for number in range(depth):
            stride = 1 if number else first
            layers.append(inverted(inputs, inputs * factor, width, 3, stride, relu6))
            inputs = width
    return nn.Sequential(*layers, unit(320, 1280, 1, act=relu6), *head(1280, 0.2))


def mnasnet() -> nn.Module:
    layers: list[nn.Module] = [unit(3, 32, 3, 2), unit(32, 32, 3, groups=32), unit(32, 16, 1, act=None)]
    inputs = 16
    for width, kernel, first, factor, depth in (
        (24, 3, 2, 3, 3),
        (40, 5, 2, 3, 3),
        (80, 5, 2, 6, 3),
        (96, 3, 1, 6, 2),
        (192, 5, 2, 6, 4),
        (320, 3, 1, 6, 1),
    ):
        for number in range(depth):
            stride = 1 if number else first
            layers.append(inverted(inputs, inputs * factor, width, kernel, stride, relu))
            inputs = width
    return nn.Sequential(*layers, unit(320, 1280, 1), *head(1280, 0.2))


def _by_eight(value: float) -> int:
    """The nearest multiple of 8, at least 90 % of the value."""
    near = max(8, int(value + 4) // 8 * 8)
    return near if near >= 0.9 * value else near + 8


def mobilenet_v3_small() -> nn.Module:
    layers: list[nn.Module] = [unit(3, 16, 3, 2, act=hardswish)]
    inputs = 16
    for kernel, wide, width, squeezed, act, stride in (
        (3, 16, 16, True, relu, 2),
        (3, 72, 24, False, relu, 2),
        (3, 88, 24, False, relu, 1),
        (5, 96, 40, True, hardswish, 2),
        (5, 240, 40, True, hardswish, 1),
        (5, 240, 40, True, hardswish, 1),
        (5, 120, 48, True, hardswish, 1),
        (5, 144, 48, True, hardswish, 1),
        (5, 288, 96, True, hardswish, 2),
        (5, 576, 96, True, hardswish, 1),
        (5, 576, 96, True, hardswish, 1),
    ):
        middle = [Squeeze(wide, _by_eight(wide / 4), nn.Hardsigmoid)] if squeezed else []
        layers.append(inverted(inputs, wide, width, kernel, stride, act, middle))
        inputs = width
    return nn.Sequential(
        *layers,
        unit(96, 576, 1, act=hardswish),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(nn.Linear(576, 1024), hardswish(), nn.Dropout(0.2), nn.Linear(1024, CLASSES)),
    )


def regnet(widths: Sequence[int], depths: Sequence[int], group: int, squeezed: float = 0.0) -> nn.Module:
    layers: list[nn.Module] = [unit(3, 32, 3, 2)]
    inputs = 32
    for width, depth in zip(widths, depths, strict=True):
        for number in range(depth):
            stride = 1 if number else 2
            squeeze = [Squeeze(width, round(squeezed * inputs), nn.Sigmoid)] if squeezed else []
            body = nn.Sequential(
                unit(inputs, width, 1),
                unit(width, width, 3, stride, width // group),
                *squeeze,
                unit(width, width, 1, act=None),
            )
            shortcut = None if number else unit(inputs, width, 1, stride, act=None)
            layers.append(Residual(body, shortcut, relu))
            inputs = width
    return nn.Sequential(*layers, *head(inputs))


class Channels(nn.LayerNorm):
    """A normalisation over the channels of pictures."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Turned(nn.Module):
    """Puts dimensions into another order."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.order)


class NextBlock(nn.Module):
    """A block of ConvNeXt; in training it is left out for some pictures."""

    def __init__(self, width: int, left_out: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            Turned(0, 2, 3, 1),
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            Turned(0, 3, 1, 2),
        )
        self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))
        self.left_out = left_out

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.scale * self.body(x)
        if self.left_out:
            chosen = torch.empty(len(x), 1, 1, 1).bernoulli_(1 - self.left_out).div_(1 - self.left_out)
            result = result * chosen
        result += x
        return result


def convnext(widths: Sequence[int], depths: Sequence[int], left_out: float) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), Channels(widths[0], eps=1e-6)]
    done = 0
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage:
            before = widths[stage - 1]
            layers += [Channels(before, eps=1e-6), nn.Conv2d(before, width, 2, 2)]
        for _ in range(depth):
            layers.append(NextBlock(width, left_out * done / (sum(depths) - 1)))
            done += 1
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(
        *layers, pool, Channels(widths[-1], eps=1e-6), nn.Flatten(), nn.Linear(widths[-1], CLASSES)
    )


class Attention(nn.Module):
    """Heads of 64 that look at earlier words only."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, words, width = x.shape
        heads = self.mixed(x).view(batch, words, 3, width // 64, 64).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        result: Tensor = self.out(seen.transpose(1, 2).reshape(batch, words, width))
        return result


class Decoder(nn.Module):
    """A language model like GPT-2: its output layer is its table of words."""

    def __init__(self, width: int = 768, depth: int = 6, words: int = 50257, longest: int = 1024) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    Residual(nn.Sequential(nn.LayerNorm(width), Attention(width))),
                    Residual(
                        nn.Sequential(
                            nn.LayerNorm(width),
                            nn.Linear(width, 4 * width),
                            nn.GELU(),
                            nn.Linear(4 * width, width),
                        )
                    ),
                )
                for _ in range(depth)
            )
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        known = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return functional.linear(self.norm(self.blocks(known)), self.words.weight)


CNNS: dict[str, Callable[[], nn.Module]] = {
    "ConvNeXtBase": lambda: convnext((128, 256, 512, 1024), (3, 3, 27, 3), 0.5),
    "ConvNeXtTiny": lambda: convnext((96, 192, 384, 768), (3, 3, 9, 3), 0.1),
    "MnasNet": mnasnet,
    "MobileNetV2": mobilenet_v2,
    "MobileNetV3Small": mobilenet_v3_small,
    "RegNetX400MF": lambda: regnet((32, 64, 160, 400), (1, 2, 7, 12), 16),
    "RegNetY400MF": lambda: regnet((48, 104, 208, 440), (1, 3, 6, 6), 8, 0.25),
    "ResNet101": lambda: resnet((3, 4, 23, 3)),
    "ResNet152": lambda: resnet((3, 8, 36, 3)),
    "VGG16": vgg16,
}
