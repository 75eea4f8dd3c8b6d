"""Roofline model: the time of work on a GPU, from two values of its data sheet.

An operator computes or moves data; the longer of both counts. Pure; independent of torch.
"""

from dataclasses import dataclass
from typing import Protocol

LAUNCH = 5e-6
"""Seconds that starting a kernel takes, however small it is."""
FLOPS_REACHED = 0.6
"""Share of the data sheet's FLOP/s that large products reach: a rule of thumb, not measured here."""
BANDWIDTH_REACHED = 0.8
"""Share of the data sheet's bandwidth that element by element work reaches: the same."""


class Rates(Protocol):
    """Peak rates of a GPU; see `gpus.GpuKind`."""

    @property
    def flops(self) -> float: ...
    @property
    def half_flops(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Work of an operator, on any GPU."""

    flops: int = 0
    """Multiplications and additions of products and convolutions; the rest is bound by memory anyway."""
    moved: int = 0
    """Bytes read and written."""
    half: bool = False
    """Products are of 16-bit numbers."""
    view: bool = False
    """True if no work is done: the result is a view of an input."""

    def backward(self) -> "OperatorCost":
        """Its share of the backward pass: a gradient for the input and one for the weights."""
        return OperatorCost(2 * self.flops, 2 * self.moved, self.half, self.view)

    def seconds(self, gpu: Rates) -> float:
        if self.view:
            return 0.0
        computing = self.flops / (FLOPS_REACHED * (gpu.half_flops if self.half else gpu.flops))
        return LAUNCH + max(computing, self.moved / (BANDWIDTH_REACHED * gpu.bandwidth))
