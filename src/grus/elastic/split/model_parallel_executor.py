"""Spread training: its operators are placed on the GPUs of one process, according to a plan.

    spread = Spread(training, plan, model, samples)
    spread(batch).backward()

The trained model is `spread.model`: the model's own weights under its own names, each on the GPU of its
operators. A captured program fits batches of one size, so there is a second one, over the same weights, for
the samples that are left at the end of an epoch.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_structure

from grus.estimation.gpus import VIRTUAL_CONTEXT, virtual
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted
from grus.partition.capture_profile import capture
from grus.partition.placement_plan_file import Split
from grus.partition.rewrite_for_devices import realize

AGAIN = "Make it again with `grus split`"
_ANY = virtual(2 * VIRTUAL_CONTEXT)
"""Device type for operators that are placed already: their cost does not matter any more."""

Shapes = tuple[tuple[int, ...] | None, ...]


class Spread:
    """Module that returns the loss of a batch. Raises
    BadInput if plan, model and GPUs do not belong together.
    """

    def __init__(self, training: Training, plan: Split, model: nn.Module, samples: int) -> None:
        if plan.batch != training.size:
            rule = f"is for batches of {plan.batch}, and this training has {training.size}. {AGAIN}"
            raise BadInput([Mistake("plan", rule)])
        self._training = training
        self._plan = plan
        self._devices = _devices(plan)
        self._structure = tree_structure(training.batch(training.size))
        self._programs: dict[Shapes, nn.Module] = {}
        self.model = self._add(training.size, model, f"is of another model. {AGAIN}")
        left = samples % training.size
        if left:
            rule = f"does not fit the {left} samples that an epoch ends with: let the batch divide {samples}"
            self._add(left, self.model, rule)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The training's, which takes parameters one by one: no plan counts what all at once need."""
        made = self._training.optimizer(parameters)
        for group in made.param_groups:
            if group.get("foreach", False) is None:
                group["foreach"] = False
        return made

    def __call__(self, batch: Any) -> Tensor:
        """Return the loss on the first GPU, for any GPU that computes it."""
        leaves = tree_leaves(batch)
        program = self._programs.get(_shapes(leaves))
        if program is None:
            known = " or ".join(map(str, self._programs))
            rule = f"must give samples like the example batch: {known}"
            raise BadInput([Mistake("data", rule, str(_shapes(leaves)))])
        loss: Tensor = program(self._structure.unflatten(leaves))
        return loss.to(_home())

    def _add(self, size: int, model: nn.Module, otherwise: str) -> nn.Module:
        """Add a program for batches of this size; return the module that holds the weights."""
        captured = capture(self._training, size, _ANY)
        places = self._plan.places
        if {name for names in captured.nodes for name in names} != set(places):
            raise BadInput([Mistake("plan", otherwise)])
        device_of = [places[names[0]] for names in captured.nodes]
        made = realize(captured, model, device_of, self._devices)
        self._programs[_shapes(tree_leaves(self._training.batch(size)))] = made
        return made.model


def assigned(wanted: Sequence[int], there: Sequence[int]) -> list[int]:
    """Assign a present GPU to each GPU of a plan, by their bytes: the largest for the largest."""
    order = sorted(range(len(wanted)), key=lambda one: -wanted[one])
    free = sorted(range(len(there)), key=lambda one: -there[one])
    found = dict(zip(order, free, strict=False))
    return [found[one] for one in range(len(wanted))]


def _devices(plan: Split) -> list[torch.device]:
    """Return a device of this process for each device of the plan, used or not."""
    used = sorted(set(plan.places.values()))
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        rule = "places operators on the GPUs of one process, so its job needs `launch: once`"
        raise BadInput([Mistake("plan", rule)])
    cuda = torch.cuda.is_available()
    there = torch.cuda.device_count() if cuda else int(float(os.environ.get("GRUS_GPUS") or len(used)))
    if there < len(used):
        wanted = counted(len(used), "GPU")
        rule = f"is for {wanted}, and this process has {there}: ask for as many under resources"
        raise BadInput([Mistake("plan", rule)])
    every = [_home()] * len(plan.topology.devices)
    if cuda:
        memory = [torch.cuda.get_device_properties(number).total_memory for number in range(there)]
        numbers = assigned([plan.topology.devices[one].memory for one in used], memory)
        for one, number in zip(used, numbers, strict=True):
            every[one] = torch.device("cuda", number)
    return every


def _home() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def _shapes(leaves: Sequence[object]) -> Shapes:
    return tuple(tuple(one.shape) if isinstance(one, Tensor) else None for one in leaves)
