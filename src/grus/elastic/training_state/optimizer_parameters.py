"""Parameters that an optimizer works on: the model's own, or stand-ins for them.

Offloading replaces them by copies in main memory: the host creates the optimizer's state there and runs its
step there. The GPU holds the weights alone once the gradients have been moved.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

HOST = torch.device("cpu")


class OptimizerParameters(Protocol):
    """Around one optimizer's step."""

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        """Return the parameters of the model that the optimizer is responsible for."""
        ...

    def before(self) -> None:
        """The model's gradients are what they should be: the optimizer is about to use them."""
        ...

    def after(self) -> None:
        """The optimizer has done its step."""
        ...

    def refresh(self) -> None:
        """Reload the parameters, which were changed by other code."""
        ...


class DirectParameters:
    """Stand-ins that are the model's own parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        return parameters_of(self._optimizer)

    def before(self) -> None:
        return

    def after(self) -> None:
        return

    def refresh(self) -> None:
        return


class HostParameters:
    """Copies of the parameters in main memory."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._model = parameters_of(optimizer)
        self._copies = [_copy(one) for one in self._model]
        put_in_place(optimizer, self._model, self._copies)

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        return self._model

    def before(self) -> None:
        for one, copy in zip(self._model, self._copies, strict=True):
            copy.grad = one.grad.to(HOST, copy=True) if one.grad is not None else None
            one.grad = None  # released before the step: the GPU does not need it any more

    def after(self) -> None:
        with torch.no_grad():
            for one, copy in zip(self._model, self._copies, strict=True):
                if copy.grad is not None:
                    one.copy_(copy, non_blocking=True)
                    copy.grad = None

    def refresh(self) -> None:
        with torch.no_grad():
            for one, copy in zip(self._model, self._copies, strict=True):
                copy.copy_(one)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def put_in_place(
    optimizer: torch.optim.Optimizer,
    model: Sequence[torch.nn.Parameter],
    others: Sequence[torch.nn.Parameter],
) -> None:
    """Have an optimizer (and its schedule, which holds on to it) work on others than the model's own."""
    by_own = {id(one): other for one, other in zip(model, others, strict=True)}
    for group in optimizer.param_groups:
        group["params"] = [by_own[id(one)] for one in group["params"]]


def _copy(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    copy = parameter.detach().to(HOST, copy=True)
    if parameter.device.type == "cuda":
        copy = copy.pin_memory()
    return torch.nn.Parameter(copy, requires_grad=parameter.requires_grad)
