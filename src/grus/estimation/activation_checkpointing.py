"""Models made lighter in place: activations computed again instead of kept, products in bfloat16.

The same code is traced for an estimate and run by `grus.train`, so that both see the same memory. A module is
not wrapped: it gets a class of its own in front of the one it has, so that names, parameters, states and
copies stay what they were.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from grus.model.distributed_options import Strategy

LONG = 4
"""Layers in a row from which on it pays to cut a row into pieces."""
_ROWS = (nn.Sequential, nn.ModuleList)


def lighten(model: nn.Module, strategies: Iterable[Strategy]) -> None:
    """Apply the strategies `checkpoint` and `bf16` to the model; the others do not change the model."""
    model = cast("nn.Module", getattr(model, "_orig_mod", model))  # for a compiled module, the original one
    given = set(strategies)
    if Strategy.CHECKPOINT in given:
        for block in blocks(model):
            _put_before(block, _Recomputed)
        for row in rows(model):
            _put_before(row, _RecomputedRow)
    if Strategy.BF16 in given:
        _put_before(model, _Lowered)


def blocks(model: nn.Module) -> list[nn.Module]:
    """The parts that a model repeats: elements of its rows that are made of several layers themselves.

    A model without rows of such is taken apart into its own parts.
    """
    found = list(_blocks(model))
    if not found and not isinstance(model, _ROWS):
        found = [one for one in model.children() if _composed(one) and not isinstance(one, _ROWS)]
    return found if len(found) > 1 else []


def rows(model: nn.Module) -> list[nn.Sequential]:
    """Long rows of single layers, outside of the blocks."""
    inside = {id(one) for block in blocks(model) for one in block.modules()}
    return [
        one
        for one in model.modules()
        if id(one) not in inside
        and isinstance(one, nn.Sequential)
        and len(one) >= LONG
        and not any(_composed(layer) for layer in one)
    ]


def shards(model: nn.Module) -> list[nn.Module]:
    """Return the parts whose weights are gathered together when sharded: blocks, else single layers."""
    found = blocks(model)
    for row in rows(model):
        found += [layer for layer in row if any(True for _ in layer.parameters())]
    return found


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        row_of_blocks = isinstance(child, _ROWS) and any(_composed(one) for one in child)
        if isinstance(module, _ROWS) and _composed(child) and not row_of_blocks:
            yield child
        else:
            yield from _blocks(child)


def _composed(module: nn.Module) -> bool:
    """Made of several layers, with something to learn in them."""
    return any(True for _ in module.children()) and any(True for _ in module.parameters())


def _put_before(module: nn.Module, kind: type[nn.Module]) -> None:
    own = type(module)
    if not issubclass(own, kind):
        module.__class__ = type(f"{kind.__name__.strip('_')}{own.__name__}", (kind, own), {})


class _Recomputed(nn.Module):
    """A block of which only the input is kept."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _again(self, super().forward, *args, **kwargs)


class _RecomputedRow(nn.Sequential):
    """A row of layers, cut into as many pieces as each piece has layers; the last piece is kept."""

    def forward(self, input: Any) -> Any:
        layers = list(self)
        length = math.ceil(len(layers) / math.isqrt(len(layers)))
        for start in range(0, len(layers), length):
            piece = layers[start : start + length]
            last = start + length >= len(layers)
            input = _through(piece, input) if last else _again(self, _through, piece, input)
        return input


class _Lowered(nn.Module):
    """A model that computes in bfloat16 where torch finds it safe; what comes out is float32 again."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        one = next(iter(self.parameters()), None)
        with torch.autocast(one.device.type if one is not None else "cpu", dtype=torch.bfloat16):
            found = super().forward(*args, **kwargs)
        return tree_map(_full, found)


def _full(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype is torch.bfloat16 else value


def _through(layers: Iterable[nn.Module], value: Any) -> Any:
    for layer in layers:
        value = layer(value)
    return value


def _again(module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _statistics_kept(module)

    return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)


@contextmanager
def _statistics_kept(module: nn.Module) -> Iterator[None]:
    """Running statistics have seen this batch already: the second time they do not move."""
    norms = [one for one in module.modules() if isinstance(one, nn.modules.batchnorm._NormBase)]
    before = [(one, one.momentum, _clone(one.num_batches_tracked)) for one in norms]
    for one in norms:
        one.momentum = 0.0
    try:
        yield
    finally:
        for one, momentum, seen in before:
            one.momentum = momentum
            if seen is not None and one.num_batches_tracked is not None:
                one.num_batches_tracked.copy_(seen)


def _clone(tensor: Tensor | None) -> Tensor | None:
    return tensor.clone() if tensor is not None else None
