"""What is searched: an analytic function of published form, made-up learning curves, and a real training.

A task gives, for parameters, one value after another: the metric after each epoch. Lower is better. A run
that is not asked for its next value has stopped, and goes on where it was when it is asked again.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grus.model.sweep_search import Axis, Params, Value

Floats = npt.NDArray[np.float64]
Run = Callable[[Mapping[str, Value], int], Iterator[float]]


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    axes: tuple[Axis, ...]
    epochs: int
    """Of a whole run."""
    run: Run
    """By parameters, and a number that chance comes from."""
    reference: int
    """Runs by chance that the target is taken from."""

    def start(self, params: Params, chance: int) -> Iterator[float]:
        return self.run(dict(params), chance)


# MF-Hartmann: the Hartmann functions with a fidelity, as mf-prior-bench has them (automl/mf-prior-bench,
# after Kandasamy et al. 2017, arXiv 1703.06240, and Mallik et al. 2023, arXiv 2306.12370): at fidelity z of
# 100 the heights are lessened by bias * (1 - log z / log 100), and half-normal noise is added that fades
# alike. Bias 0.5 and noise 0.1 are its plain setting; 2.5 and 2.0 are the one it calls good.
_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN = {
    3: (
        np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
        1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    ),
    6: (
        np.array(
            [
                [10, 3, 17, 3.5, 1.7, 8],
                [0.05, 10, 17, 0.1, 8, 14],
                [3, 3.5, 1.7, 10, 17, 8],
                [17, 8, 0.05, 10, 0.1, 14],
            ]
        ),
        1e-4
        * np.array(
            [
                [1312, 1696, 5569, 124, 8283, 5886],
                [2329, 4135, 8307, 3736, 1004, 9991],
                [2348, 1451, 3522, 2883, 3047, 6650],
                [4047, 8828, 8732, 5743, 1091, 381],
            ]
        ),
    ),
}
FIDELITIES = 100


def hartmann(dimensions: int, bias: float, noise: float, name: str) -> Task:
    widths, centres = _HARTMANN[dimensions]

    def run(params: Mapping[str, Value], chance: int) -> Iterator[float]:
        point = np.array([float(params[f"x{axis}"]) for axis in range(dimensions)])
        parts = np.exp(-np.sum(widths * (point - centres) ** 2, axis=1))
        dice = np.random.default_rng([chance, *(point * 2**31).astype(np.int64)])
        for fidelity in range(1, FIDELITIES + 1):
            missing = 1.0 - math.log(fidelity) / math.log(FIDELITIES)
            height = float(np.sum((_HEIGHTS - bias * missing) * parts))
            yield -height + noise * missing * abs(float(dice.normal()))

    axes = tuple(Axis(name=f"x{axis}", low=0.0, high=1.0) for axis in range(dimensions))
    return Task(name, axes, FIDELITIES, run, reference=1000)


def curves() -> Task:
    """Learning curves by a power law (pow3 of Domhan et al. 2015, IJCAI) whose floor, speed and noise depend
    on four parameters: what learns fast ends high, and curves cross."""

    def run(params: Mapping[str, Value], chance: int) -> Iterator[float]:
        rate = math.log10(float(params["lr"]))
        decay = math.log10(float(params["decay"]))
        dropout, width = float(params["dropout"]), math.log2(float(params["width"]))
        best = -2.6 - 0.15 * (width - 6)
        floor = 0.15 + 0.06 * (rate - best) ** 2 + 0.02 * (decay + 4) ** 2
        floor += 0.4 * (dropout - 0.2) ** 2 + 0.012 * (9 - width) ** 2
        speed = 0.9 / (1 + math.exp(-2.0 * (rate + 3.2))) + 0.25
        dice = np.random.default_rng([chance, int(1e6 * (rate + 10)), int(1e6 * dropout)])
        start = 2.3 - floor
        for epoch in range(1, 82):
            yield floor + start * float(epoch**-speed) + 0.01 * float(dice.normal())

    axes = (
        Axis(name="lr", low=1e-5, high=1.0, log=True),
        Axis(name="decay", low=1e-6, high=1e-1, log=True),
        Axis(name="dropout", low=0.0, high=0.7),
        Axis(name="width", choices=(16, 32, 64, 128, 256, 512)),
    )
    return Task("curves", axes, 81, run, reference=1000)


def network() -> Task:
    """A real training: a network of one hidden layer learns to tell three spirals apart, in NumPy. The metric
    is the cross entropy on points that it is not trained on."""
    trained_on, judged_by = spirals(600, 1), spirals(300, 2)

    def run(params: Mapping[str, Value], chance: int) -> Iterator[float]:
        training = NetworkTraining(params, chance)
        for _ in range(81):
            training.epoch(*trained_on)
            yield training.loss(*judged_by)

    axes = (
        Axis(name="lr", low=1e-4, high=3.0, log=True),
        Axis(name="momentum", low=0.0, high=0.99),
        Axis(name="width", low=4, high=128, log=True, whole=True),
        Axis(name="scale", low=0.1, high=10.0, log=True),
        Axis(name="decay", low=1e-6, high=1e-1, log=True),
    )
    return Task("network", axes, 81, run, reference=300)


def spirals(count: int, seed: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    dice = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    way = dice.uniform(0.1, 1.0, count)
    angle = 4.0 * way + labels * 2 * math.pi / 3 + dice.normal(0, 0.15, count)
    return np.stack([way * np.cos(angle), way * np.sin(angle)], axis=1), labels


class NetworkTraining:
    """The training of `network`: mini-batch SGD with momentum. What it holds can be pickled after any epoch,
    and goes on as if nothing had been."""

    def __init__(self, params: Mapping[str, Value], chance: int) -> None:
        self._params = dict(params)
        self._dice = np.random.default_rng([chance, 3])
        width, scale = int(params["width"]), float(params["scale"])
        self._weights = [
            self._dice.normal(0, scale, (2, width)),
            np.zeros(width),
            self._dice.normal(0, 0.1, (width, 3)),
            np.zeros(3),
        ]
        self._speeds = [np.zeros_like(weight) for weight in self._weights]

    def epoch(self, points: Floats, labels: npt.NDArray[np.int64]) -> None:
        """Once over all points."""
        rate, momentum, decay = (float(self._params[name]) for name in ("lr", "momentum", "decay"))
        order = self._dice.permutation(len(points))
        with np.errstate(all="ignore"):
            for first in range(0, len(order), 50):
                some = order[first : first + 50]
                slopes = _slopes(self._weights, points[some], labels[some])
                for weight, speed, slope in zip(self._weights, self._speeds, slopes, strict=True):
                    speed *= momentum
                    speed -= rate * (slope + decay * weight)
                    weight += speed

    def loss(self, points: Floats, labels: npt.NDArray[np.int64]) -> float:
        """Cross entropy on these points."""
        with np.errstate(all="ignore"):
            return _loss(self._weights, points, labels)


def _forward(weights: list[Floats], points: Floats) -> tuple[Floats, Floats]:
    hidden = np.tanh(points @ weights[0] + weights[1])
    scores = hidden @ weights[2] + weights[3]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def _slopes(weights: list[Floats], points: Floats, labels: npt.NDArray[np.int64]) -> list[Floats]:
    hidden, chances = _forward(weights, points)
    off = chances.copy()
    off[np.arange(len(labels)), labels] -= 1
    off /= len(labels)
    back = (off @ weights[2].T) * (1 - hidden**2)
    return [points.T @ back, back.sum(axis=0), hidden.T @ off, off.sum(axis=0)]


def _loss(weights: list[Floats], points: Floats, labels: npt.NDArray[np.int64]) -> float:
    _, chances = _forward(weights, points)
    return float(-np.mean(np.log(np.maximum(chances[np.arange(len(labels)), labels], 1e-12))))


TASKS: Mapping[str, Callable[[], Task]] = {
    "hartmann3": lambda: hartmann(3, 0.5, 0.1, "hartmann3"),
    "hartmann3_good": lambda: hartmann(3, 2.5, 2.0, "hartmann3_good"),
    "curves": curves,
    "network": network,
}
