"""Partial model construction: makes some of a model's tensors with memory for no more than them.

The tensors are as in the whole model. A model that is too big for a device may be too big for its worker as
well. So it is built on disk: each large tensor is in a file that is mapped into memory, and its pages are
released periodically. The wanted tensors are read from there in the end. The code that builds the model needs
no change and may read every number.
"""

import mmap
import random
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

LARGE = 1 << 20
"""Bytes from which on a tensor is put on the disk."""
CPU = torch.device("cpu")
_EMPTY = {torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default}
"""Operators that create most weights: their result is made in its file at once."""
OFTEN = 64 << 20
"""Bytes made, after which their pages in memory are released."""


def build_part(make: Callable[[], nn.Module], wanted: Collection[str], seed: int) -> dict[str, Tensor]:
    """Return the wanted tensors of the model that `make`
    builds, by name; tensors that it lacks are left out.
    """
    with _chance(seed), _OnDisk():
        model = make()
        found = tensors(model)
    for name in set(wanted) - set(found):
        if isinstance(value := _attribute(model, name), Tensor):  # neither a parameter nor a buffer
            found[name] = value
    copies: dict[int, Tensor] = {}
    there = [name for name in wanted if name in found]
    for name in there:
        tensor = found[name]
        if id(tensor) not in copies:
            copies[id(tensor)] = _copy(tensor)
    return {name: copies[id(found[name])] for name in there}


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers under all of their names."""
    parameters = model.named_parameters(remove_duplicate=False)
    return dict((*parameters, *model.named_buffers(remove_duplicate=False)))


def _attribute(model: nn.Module, name: str) -> object:
    found: object = model
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _copy(tensor: Tensor) -> Tensor:
    copied = tensor.detach().clone()
    return nn.Parameter(copied, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else copied


@contextmanager
def _chance(seed: int) -> Iterator[None]:
    """The same numbers each time, and none taken from those of the caller."""
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])


class _OnDisk(TorchDispatchMode):
    """Large tensors that an operator makes are moved to files at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch gives it no types
        self._maps: list[mmap.mmap] = []
        self._made = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in _EMPTY and given.get("device", CPU) in (None, CPU):
            shape = func(*args, **{**given, "device": "meta", "pin_memory": False})
            large = shape.untyped_storage().nbytes() >= LARGE
            return self._mapped(shape) if large else func(*args, **given)
        result = func(*args, **given)
        if any(one.alias_info is not None for one in func._schema.returns):
            return result  # a view, or the tensor that it changed
        old = {_storage(one) for one in tree_iter((args, given)) if isinstance(one, Tensor)}
        return tree_map(lambda one: self._moved(one, old), result)

    def _moved(self, value: Any, old: set[int]) -> Any:
        if not isinstance(value, Tensor) or value.device.type != "cpu" or value.layout != torch.strided:
            return value
        storage = value.untyped_storage()
        if storage.nbytes() < LARGE or _storage(value) in old:
            return value
        moved = self._mapped(value).copy_(value)
        storage.resize_(0)  # now, and not when torch releases its result
        return moved

    def _mapped(self, like: Tensor) -> Tensor:
        """A tensor of this shape, in a file."""
        size = like.untyped_storage().nbytes()
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
        self._maps.append(mapped)
        self._made += size
        if self._made >= OFTEN:
            self._let_go()
        flat = torch.frombuffer(mapped, dtype=like.dtype)
        return flat.as_strided(like.shape, like.stride(), like.storage_offset())

    def _let_go(self) -> None:
        """Release the pages in memory; data on disk is read again when needed."""
        self._made = 0
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)


def _storage(tensor: Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address
