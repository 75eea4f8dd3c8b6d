"""The work of one operator, from the tensors that it reads and writes. Needs torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from grus.estimation.roofline import OperatorCost

HALF = (torch.float16, torch.bfloat16)
LOOKUPS = {getattr(torch.ops.aten, name) for name in ("embedding", "index", "index_select", "gather")}
"""Operators that read of their first input no more than they write."""
_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_ATTENTION_BACK = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def tensors_in(value: object) -> list[Tensor]:
    """Return the tensors with memory of their own; a sparse
    one is stored in its indices and values, seen too.
    """
    return [one for one in tree_iter(value) if isinstance(one, Tensor) and one.layout is torch.strided]


def flops(operator: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
    """Multiplications and additions of products and convolutions; 0 for anything else."""
    packet = getattr(operator, "overloadpacket", operator)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=result))
    if packet is _ATTENTION:  # torch counts the variant that a GPU runs
        return int(sdpa_flop_count(*(one.shape for one in args[:3])))
    if packet is _ATTENTION_BACK:
        return int(sdpa_backward_flop_count(*(one.shape for one in args[:4])))
    return 0


def work(operator: Any, read: Sequence[Tensor], written: Sequence[Tensor], flops: int) -> OperatorCost:
    """Return the work of one call of the operator."""
    if not _mutates(operator) and {*map(_storage, written)} <= {*map(_storage, read)}:
        return OperatorCost(view=True)
    moved = sum(map(_size, (*read, *written)))
    if getattr(operator, "overloadpacket", None) in LOOKUPS:
        moved -= max(0, _size(read[0]) - _size(written[0]))
    floats = [one for one in read if one.is_floating_point()]
    half = bool(floats) and all(one.dtype in HALF for one in floats)
    return OperatorCost(flops, moved, half)


def _mutates(operator: Any) -> bool:
    schema = getattr(operator, "_schema", None)
    return schema is not None and schema.is_mutable


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: Tensor) -> int:
    """Bytes that are touched: what is expanded is read once."""
    if 0 in tensor.stride():
        return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
    return tensor.numel() * tensor.element_size()
