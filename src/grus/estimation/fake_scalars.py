"""Made-up numbers for a training that reads its numbers while it runs without data. Needs torch.

A number is 1 and a condition is true, so that the path with more work is taken; the check whether a number is
NaN or infinite is false. A selection by a mask selects everything: the most that it can be.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from grus.estimation.operator_flops import tensors_in
from grus.model.errors import BadInput, Mistake

PATIENCE = 500
"""Questions of one step that are answered with yes; a loop that waits for a no gets it then."""

_aten = torch.ops.aten
_NUMBERS = {_aten._local_scalar_dense, _aten.is_nonzero}
_BROKEN = {_aten.isnan, _aten.isinf}
_NOT = {_aten.logical_not, _aten.bitwise_not}
_CHOOSING = {
    _aten.index,
    _aten.index_put,
    _aten.index_put_,
    _aten._index_put_impl_,
    _aten._unsafe_index,
    _aten._unsafe_index_put,
}
_MASKS = (torch.bool, torch.uint8)


class MadeUp:
    """Made-up values for one trace."""

    def __init__(self) -> None:
        self._no = WeakIdKeyDictionary()  # tensors that represent a negative answer
        self._asked = 0

    def new_step(self) -> None:
        self._asked = 0

    def answer(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of the operator, or of one like it that needs no numbers."""
        packet = func.overloadpacket
        if packet in _NUMBERS:
            return self._number(args[0])
        result = _LARGEST[packet](*args) if packet in _LARGEST else func(*_everything(packet, args), **kwargs)
        self._follow(packet, args, result)
        return result

    def _number(self, tensor: Tensor) -> bool | int | float:
        kind = float if tensor.is_floating_point() else bool if tensor.dtype == torch.bool else int
        if kind is not bool and tensor not in self._no:
            return kind(1)
        self._asked += 1
        if self._asked > 2 * PATIENCE:
            rule = f"asks for its numbers {2 * PATIENCE} times in a step, and there are none before it runs"
            raise BadInput([Mistake("loss", f"{rule}; is there a loop that waits for them?")])
        return kind(self._asked <= PATIENCE and tensor not in self._no)

    def _follow(self, packet: Any, args: Sequence[Any], result: Any) -> None:
        """Remember checks for NaN or infinite numbers, and values derived from such checks."""
        asks = packet in _BROKEN or _compares_with_itself(packet, args)
        if not asks and (packet in _NOT or not self._no):
            return
        if asks or any(one in self._no for one in tensors_in(args)):
            for one in tensors_in(result):
                if not one.is_floating_point():
                    self._no[one] = True


def _compares_with_itself(packet: Any, args: Sequence[Any]) -> bool:
    """Return whether it is torch's expansion of `isnan` or `isinf`."""
    if packet is _aten.ne:
        return args[0] is args[1]
    return packet is _aten.eq and isinstance(args[1], float) and math.isinf(args[1])


def _everything(packet: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments with masks replaced by as many indices as they have elements."""
    if packet not in _CHOOSING:
        return args
    places: list[Tensor | None] = []
    for one in args[1]:
        if one is not None and one.dtype in _MASKS:
            places += [torch.empty(one.numel(), dtype=torch.int64, device=one.device)] * one.dim()
        else:
            places.append(one)
    return (args[0], places, *args[2:])


def _nonzero(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.numel(), tensor.dim(), dtype=torch.int64, device=tensor.device)


def _masked(tensor: Tensor, mask: Tensor) -> Tensor:
    return tensor.new_empty(torch.broadcast_shapes(tensor.shape, mask.shape).numel())


def _unique(tensor: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    count = tensor.numel()
    whole = torch.empty(count, dtype=torch.int64, device=tensor.device)
    return tensor.new_empty(count), whole.view(tensor.shape), torch.empty_like(whole)


_LARGEST: dict[Any, Callable[..., Any]] = {
    _aten.nonzero: _nonzero,
    _aten.masked_select: _masked,
    _aten._unique2: _unique,
}
"""Operators whose results are as large as the numbers in them."""
