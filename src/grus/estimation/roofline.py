"""How long work takes on a GPU, from two figures of its data sheet: an operator computes or moves data,
whichever takes longer. Pure; knows no torch."""

from dataclasses import dataclass
from typing import Protocol

LAUNCH = 5e-6
"""Seconds that starting a kernel takes, however small it is."""
FLOPS_REACHED = 0.6
"""Share of the data sheet's FLOP/s that large products reach: a rule of thumb, not measured here."""
BANDWIDTH_REACHED = 0.8
"""Share of the data sheet's bandwidth that element by element work reaches: the same."""


class Rates(Protocol):
    """What a GPU can do at best; see `gpus.GpuKind`."""

    @property
    def flops(self) -> float: ...
    @property
    def half_flops(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator does, on whichever GPU."""

    flops: int = 0
    """Multiplications and additions of products and convolutions; the rest is bound by memory anyway."""
    moved: int = 0
    """Bytes read and written."""
    half: bool = False
    """Products are of 16-bit numbers."""
    view: bool = False
    """Nothing is done: the result is another look at an input."""

    def backward(self) -> "Work":
        """Its share of the backward pass: a gradient for the input and one for the weights."""
        return Work(2 * self.flops, 2 * self.moved, self.half, self.view)

    def seconds(self, gpu: Rates) -> float:
        if self.view:
            return 0.0
        computing = self.flops / (FLOPS_REACHED * (gpu.half_flops if self.half else gpu.flops))
        return LAUNCH + max(computing, self.moved / (BANDWIDTH_REACHED * gpu.bandwidth))
