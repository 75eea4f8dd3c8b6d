"""Training description, shared by estimates, splits and workers. Needs torch.

It has the model, its data and its settings. The parts are functions, so that each use gets its own.
`of_model`, `of_optimizer`, `of_example` and `of_data` make them from objects that exist already.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.data import default_collate

Loss = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class Training:
    """Functions that make the parts of a training.

    Each function is called again for every use, so that a change by one use is not visible to another.
    """

    model: Callable[[], nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    batch: Callable[[int], Any]
    """A batch of so many samples: tensors in any nesting of tuples, lists and dicts."""
    loss: Loss
    """The forward pass: the loss of the model on a batch."""
    size: int
    """Samples of a batch, unless another size is requested."""
    data: Callable[[], Any] | None = None
    """Training data, if known: a dataset of samples."""
    epochs: int = 1
    seed: int = 0
    validation: "Validation | None" = None
    """Validation after each epoch."""


@dataclass(frozen=True)
class Validation:
    """Validation: data outside the training set, and the metric computed on it."""

    data: Callable[[], Any]
    metric: Callable[[Any, Any], Any] | None = None
    """Metric of an output and a target, both of several samples; their mean."""
    name: str = ""
    """Name under which the metric is reported."""


def of_model(model: nn.Module) -> Callable[[], nn.Module]:
    """Copies of a model that is already built."""
    return lambda: copy.deepcopy(model)


def of_optimizer(
    optimizer: Optimizer, model: nn.Module
) -> Callable[[Iterable[nn.Parameter]], Optimizer] | None:
    """The same optimizer for a copy of its model; None if it has parameters that are not this model's."""
    own = list(model.parameters())
    known = {id(parameter) for parameter in own}
    held = chain.from_iterable(group["params"] for group in optimizer.param_groups)
    if not all(id(parameter) in known for parameter in held):
        return None

    def anew(parameters: Iterable[nn.Parameter]) -> Optimizer:
        instead: dict[int, Any] = {id(old): new for old, new in zip(own, parameters, strict=True)}
        made = object.__new__(type(optimizer))
        made.__dict__ = copy.deepcopy(optimizer.__dict__, instead)
        return made

    return anew


def samples(batch: object) -> int:
    """Return the number of samples of an example batch:
    the first dimension of its first tensor; 0 without one.
    """
    return next((len(value) for value in _tensors(batch) if value.dim()), 0)


def of_example(batch: object) -> Callable[[int], Any]:
    """Batches of any size out of one: its samples over and over.

    What has one entry a sample is repeated, and so is a flat tensor with several entries a sample (the words
    of all sentences in a row); anything else is the same for every size.
    """
    own = samples(batch)

    def repeated(value: object, count: int) -> object:
        if not isinstance(value, Tensor) or not value.dim():
            return value
        entries = len(value)
        if entries != own and not (value.dim() == 1 and entries and entries % own == 0):
            return value
        return value if count == own else value[torch.arange(count * (entries // own)) % entries]

    return lambda count: tree_map(lambda value: repeated(value, count), batch)


def of_data(data: Sequence[Any]) -> Callable[[int], Any]:
    """Batches of any size out of the first samples of a dataset, over and over where it is small."""
    return lambda count: default_collate([data[number % len(data)] for number in range(count)])


def criterion(loss: Callable[[Any, Any], Tensor]) -> Loss:
    """A loss as torch writes it, of (output, target), for batches of (input, target)."""
    return lambda model, batch: loss(model(batch[0]), batch[1])


def _tensors(batch: object) -> Iterator[Tensor]:
    return (value for value in tree_iter(batch) if isinstance(value, Tensor))
