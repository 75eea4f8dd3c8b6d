"""Goodput: the progress of a job at each size with the batch that suits its gradient noise best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from grus.scheduler.elasticity.throughput_model import TINY, Floats, StepModel

BATCHES_TRIED = 50


SLACK = 1e-8


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Squared norm and variance of the gradient, as reported; without variance larger batches buy nothing."""

    grad_sqr: float
    grad_var: float


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch sizes that a job allows: totals from `first` to `largest`, local ones from `smallest_local` up.

    `fixed` is a total that may not change; `noise_needs_two` means that one GPU accumulates a batch above the
    first, as gradient noise cannot be seen in a single micro-batch.
    """

    first: int
    largest: int
    smallest_local: int
    largest_local: int
    fixed: int | None = None
    noise_needs_two: bool = True

    @property
    def most_gpus(self) -> int:
        """Return the number of GPUs beyond which every GPU would have less than its smallest local batch."""
        return max(1, (self.fixed or self.largest) // self.smallest_local)


def efficiency(noise: GradientNoise, scale: ArrayLike) -> Floats:
    """Return the worth of an example in a batch `scale` times the first, relative to one in the first: 1 and
    falling.
    """
    scale = np.asarray(scale, dtype=float)
    total = noise.grad_var + noise.grad_sqr
    below = noise.grad_var + noise.grad_sqr * scale
    return np.where(below > 0, total / np.maximum(below, TINY * TINY), 1.0 / scale)


@dataclass(frozen=True, slots=True)
class Choice:
    """Batch, and its prediction: progress per second, in first-batch examples."""

    local: int
    accumulation: int
    goodput: float


class SpeedTable:
    """Predicted times of all sizes and batches worth trying; gradient noise then picks the best of each size.

    `shapes` are (nodes, GPUs). Built once per model, queried whenever noise changes.
    """

    def __init__(self, model: StepModel, batches: Batches, shapes: Sequence[tuple[int, int]]) -> None:
        self.shapes = tuple(shapes)
        nodes, gpus = np.array(self.shapes, dtype=float).T
        total = _totals(batches, gpus)
        local, accumulation = _split(batches, total, gpus)
        compute, step = model.times(nodes, gpus, np.maximum(local, 1))
        self._local, self._accumulation = local, accumulation
        self._total = gpus * local * (accumulation + 1)
        allowed = (local >= batches.smallest_local) & (local <= batches.largest_local)
        self._seconds = np.where(allowed, step + accumulation * compute, np.inf)
        self._scale = np.maximum(self._total / batches.first, TINY)
        self._rows = np.arange(len(self.shapes))

    def best(self, noise: GradientNoise | None) -> list[Choice]:
        """Return the best batch of each shape; without noise every example counts the same."""
        worth = self._total / self._seconds
        if noise is not None:
            worth = worth * efficiency(noise, self._scale)
        column = np.argmax(worth, axis=0)
        return [
            Choice(int(self._local[c, row]), int(self._accumulation[c, row]), float(worth[c, row]))
            for row, c in zip(self._rows, column, strict=True)
        ]

    def goodput(self, noise: GradientNoise | None) -> list[float]:
        """Return the best predicted progress of each shape."""
        worth = self._total / self._seconds
        if noise is not None:
            worth = worth * efficiency(noise, self._scale)
        best: list[float] = worth.max(axis=0).tolist()
        return best


def _totals(batches: Batches, gpus: Floats) -> Floats:
    """Return totals to try, one column per size, spaced by equal factors."""
    if batches.fixed is not None:
        return np.full((1, len(gpus)), float(batches.fixed))
    least = np.minimum(np.maximum(batches.first, batches.smallest_local * gpus), batches.largest)
    steps = np.linspace(0.0, 1.0, BATCHES_TRIED)[:, None]
    return least * (batches.largest / least) ** steps


def _split(batches: Batches, total: Floats, gpus: Floats) -> tuple[Floats, Floats]:
    """Return local batch and accumulation steps of a total, never above the largest total."""
    each = np.ceil(total / gpus - SLACK)
    accumulation = np.ceil(each / batches.largest_local - SLACK) - 1
    if batches.noise_needs_two:
        lonely = (gpus == 1) & (total > batches.first + SLACK)
        accumulation = np.where(lonely, np.maximum(accumulation, 1), accumulation)
    local = np.ceil(each / (accumulation + 1) - SLACK)
    return np.minimum(local, np.floor(batches.largest / (gpus * (accumulation + 1)))), accumulation


def best_batch(
    model: StepModel, noise: GradientNoise | None, batches: Batches, nodes: int, gpus: int
) -> Choice:
    """Return the batch that makes most progress on these GPUs."""
    return SpeedTable(model, batches, [(nodes, gpus)]).best(noise)[0]
