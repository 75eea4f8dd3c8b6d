"""What an optimizer works on: the model's parameters, or others in their place.

Off-loading puts copies in main memory in their place: the optimizer's state is made there and its step is
done there, by the host. The GPU holds the weights alone once the gradients have gone.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

HOST = torch.device("cpu")


class StandIns(Protocol):
    """Around one optimizer's step."""

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        """Of the model, which the optimizer is there for."""
        ...

    def before(self) -> None:
        """The model's gradients are what they should be: the optimizer is about to use them."""
        ...

    def after(self) -> None:
        """The optimizer has done its step."""
        ...

    def refresh(self) -> None:
        """The model's parameters were changed by somebody else."""
        ...


class Themselves:
    """Nothing stands between an optimizer and its model."""

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


class OnHost:
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
            one.grad = None  # given back before the step: the GPU has no use for it any more

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
