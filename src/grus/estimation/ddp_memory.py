"""Memory of the gradient exchange on each worker: buffers, and data kept for later. Needs torch.

A trace runs this between the backward pass and the optimizer, as `grus.train` runs its reducer there. Nothing
is sent: the memory is the same, and the bytes follow from the shapes.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from grus.model.distributed_options import COMPRESSING, Strategy, holding

RANK = 4
"""Columns of the thin matrices as which a gradient travels: with as many, PowerSGD's paper loses nothing."""
WORTH = 2
"""A gradient travels as thin matrices if these are so many times smaller."""


class Exchange:
    """Exchange of the gradients of one model, step after step."""

    def __init__(self, how: Strategy) -> None:
        self._how = how
        self._kept: dict[int, Tensor] = {}

    def __call__(self, parameters: Iterable[Tensor]) -> None:
        for index, parameter in enumerate(parameters):
            if parameter.grad is not None:
                parameter.grad = self._summed(index, parameter.grad)

    def _summed(self, index: int, grad: Tensor) -> Tensor:
        if self._how is Strategy.POWERSGD and thin(grad):
            self._kept[index] = torch.empty_like(grad)
            return torch.empty_like(grad)
        if index not in self._kept:
            half = self._how is Strategy.FP16_GRADIENTS and grad.dtype in (torch.float32, torch.float64)
            self._kept[index] = torch.empty_like(grad, dtype=torch.float16 if half else grad.dtype)
        return self._kept[index].to(grad.dtype)


def exchange_of(strategies: Sequence[Strategy], workers: int) -> Strategy | None:
    """Return the form in which gradients are sent; None if they are not, or if they are sharded."""
    if workers == 1 or holding(strategies, workers) not in (Strategy.DDP, Strategy.ZERO1):
        return None
    return next((one for one in strategies if one in COMPRESSING), Strategy.DDP)


def payload(parameters: Iterable[Tensor], how: Strategy | None = None) -> int:
    """Bytes of one worker's gradients as they travel."""
    return sum(_payload(one, how) for one in parameters if one.requires_grad)


def _payload(parameter: Tensor, how: Strategy | None) -> int:
    whole = parameter.numel() * parameter.element_size()
    if how is Strategy.FP16_GRADIENTS:
        return min(whole, 2 * parameter.numel())
    if how is Strategy.POWERSGD and thin(parameter):
        return sum(sides(parameter)) * RANK * parameter.element_size()
    return whole


def sides(tensor: Tensor) -> tuple[int, int]:
    """A tensor's rows and columns, taken as a matrix."""
    rows = tensor.shape[0] if tensor.dim() else 1
    return rows, tensor.numel() // max(1, rows)


def thin(tensor: Tensor, rank: int = RANK) -> bool:
    """Return whether a gradient of this shape is sent as thin matrices."""
    rows, columns = sides(tensor)
    pays = (rows + columns) * rank * WORTH <= rows * columns
    return tensor.dim() > 1 and tensor.is_floating_point() and pays
