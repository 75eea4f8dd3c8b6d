"""Models without data: every tensor has its shape and type, none has numbers. Needs torch.

A model is built with real but untouched memory, since some models cannot be built from tensors without data,
and converted afterwards.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

_AT_RANDOM = {
    getattr(torch.ops.aten, name)
    for name in ("normal_", "uniform_", "random_", "bernoulli_", "erfinv_", "exponential_", "log_normal_")
}

_COPY = torch.ops.aten.clone.default
LARGE = 1 << 20
"""Bytes of weights from which on a copy of them is worth leaving out; small tensors may be settings."""


def built(make: Callable[[], nn.Module], fake: FakeTensorMode) -> nn.Module:
    """The model in training mode, without data."""
    with untouched():
        model = make()
    model.train()
    _convert(model, fake)
    return model


def _convert(model: nn.Module, fake: FakeTensorMode) -> None:
    """Takes the data out of a model's tensors; what is shared stays shared."""
    done: dict[int, tuple[Tensor, Tensor]] = {}  # keeps the first alive, so that its id is not reused
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in done:
                    done[id(tensor)] = (tensor, _without_data(tensor, fake))
                tensors[name] = done[id(tensor)][1]  # type: ignore[assignment] # parameters stay parameters


def _without_data(tensor: Tensor, fake: FakeTensorMode) -> Tensor:
    if not tensor.is_meta:
        return fake.from_tensor(tensor)
    with fake:  # a model built on "meta" will be trained on a device like any other
        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty


def untouched() -> AbstractContextManager[object]:
    """Meanwhile models are built and copied without their numbers, and take hardly any memory."""
    return _Untouched()  # type: ignore[no-untyped-call] # torch gives it no types


class _Untouched(TorchDispatchMode):
    """Skips the random numbers of new weights: they are never read, and writing them takes the memory."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket in _AT_RANDOM:
            return args[0]
        if func is _COPY and args[0].is_floating_point() and args[0].nbytes >= LARGE:
            return torch.empty_like(args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))
