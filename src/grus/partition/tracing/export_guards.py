"""Faithfulness check: an export must compute what its training does, in every step. Needs torch.

An export records one run's operations on tensors. Everything else in the user's code is lost or fixed: its
own backward functions and hooks, gradients that it computes itself, buffers that it replaces, counters, and
random numbers that are not torch's. Such a training would continue without an error, and with wrong results.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

FORGOTTEN = {
    Tensor.register_hook: "puts a hook on a tensor",
    torch.autograd.grad: "takes gradients itself (torch.autograd.grad)",
    torch.autograd.backward: "takes gradients itself (backward)",
    Tensor.backward: "takes gradients itself (backward)",
}
"""Operations of the user's code on a tensor that an export does not record."""


def watched(whole: nn.Module, batch: Any) -> tuple[Any, list[str]]:
    """One run of the forward pass, without data: its result, and what an export of it would forget."""
    before, chance = _state(whole), _chance()
    with _Watching() as watching:
        loss = whole(batch)
    found = [*watching.found, *_changes(before, _state(whole))]
    if _chance() != chance:
        found.append("draws random numbers that are not torch's (random, numpy)")
    return loss, found + list(_of_its_own(loss))


def strange(program: ExportedProgram, whole: nn.Module) -> bool:
    """Return whether it reads tensors that neither belong to the model nor come from a forward operator."""
    outside = {name for name, one in program.constants.items() if isinstance(one, FakeTensor)}
    return bool(outside - {name for name, _ in whole.named_buffers(remove_duplicate=False)})


def trained(loss: Tensor, parameters: Iterable[tuple[str, Tensor]]) -> frozenset[str]:
    """The names of those that get a gradient."""
    leaves = {id(one.variable) for one in _backward(loss) if hasattr(one, "variable")}
    return frozenset(name for name, parameter in parameters if id(parameter) in leaves)


def _state(whole: nn.Module) -> dict[str, object]:
    """Return the state that a run may change without an
    operator: the identity of the buffers, and numbers.
    """
    found: dict[str, object] = {f"buffer {name}": id(one) for name, one in whole.named_buffers()}
    for name, module in whole.named_modules():
        own = f"{name}.".removeprefix("model.").lstrip(".")
        found |= {
            f"attribute {own}{key}": value
            for key, value in vars(module).items()
            if isinstance(value, int | float) and not key.startswith("_")
        }
    return found


def _changes(before: dict[str, object], after: dict[str, object]) -> Iterator[str]:
    for what, value in after.items():
        if before.get(what, value) != value:
            how = "replaces (instead of copy_ into it)" if what.startswith("buffer") else "changes"
            yield f"{how} its {what.replace('buffer model.', 'buffer ')} in each step"


def _chance() -> tuple[object, object]:
    numbers: Any = np.random.get_state()
    return random.getstate(), (numbers[1].tobytes(), *numbers[2:])


def _of_its_own(loss: object) -> Iterator[str]:
    for one in _backward(loss) if isinstance(loss, Tensor) else ():
        if isinstance(one, BackwardCFunction):
            name = type(one).__name__.removesuffix("Backward")
            hint = " (say use_reentrant=False)" if name == "CheckpointFunction" else ""
            yield f"has a backward function of its own, {name}{hint}"


def _backward(loss: Tensor) -> Iterator[Node]:
    """Every function of the backward pass."""
    waiting = [loss.grad_fn] if loss.grad_fn is not None else []
    seen = {*waiting}
    while waiting:
        function = waiting.pop()
        yield function
        for one, _ in function.next_functions:
            if one is not None and one not in seen:
                seen.add(one)
                waiting.append(one)


class _Watching(TorchFunctionMode):
    """Notes what is done with tensors that an export would forget."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in FORGOTTEN:
            self.found.append(FORGOTTEN[func])
        return func(*args, **(kwargs or {}))
