"""Strategies that a run follows: those that its program names, else those of its job.

`grus.model.distributed_options` defines their meaning; this module defines what `grus.train` can and cannot
do with them.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from grus.model.distributed_options import SHARDED, Strategy, parse, spell
from grus.model.errors import BadInput, Mistake

FIELD = "strategy"
CUT = frozenset({Strategy.ZERO2, Strategy.FSDP})
"""Torch's own FSDP cuts the model up and sums the gradients."""


def chosen(given: str | None) -> tuple[tuple[Strategy, ...], list[Mistake]]:
    """The strategies and what is wrong with the words."""
    try:
        return parse(given if given is not None else os.environ.get("GRUS_STRATEGY", "")), []
    except BadInput as error:
        return (), error.mistakes


def followed(strategies: Sequence[Strategy]) -> tuple[Strategy, ...]:
    """Return the strategies that there are enough workers for: a single worker cannot share its state."""
    alone = int(os.environ.get("WORLD_SIZE") or 1) == 1
    return tuple(one for one in strategies if not (alone and one in SHARDED))


def objections(
    strategies: Sequence[Strategy],
    models: Mapping[str, Any],
    optimizers: Mapping[str, Any],
    *,
    several: bool,
    adaptive: bool,
    stream: bool,
    also: bool,
    scaled: bool,
) -> list[Mistake]:
    """Why a run of this kind cannot follow them."""
    given = set(strategies)
    sharded, cut = given & SHARDED, given & CUT
    apart = sharded | (given & {Strategy.OFFLOAD})
    rules = {
        "split needs a job with a `train` section; `grus split` writes one": Strategy.SPLIT in given,
        f"{spell(sharded)} is for one model and one optimizer": bool(sharded) and several,
        f"{spell(sharded)} needs a fixed global_batch": bool(sharded) and adaptive,
        f"{spell(cut)} needs a dataset with a length": bool(cut) and stream,
        f"{spell(cut)} takes nothing in `also`, which would hold a whole model": bool(cut) and also,
        f"{spell(apart)} takes no scaler; bf16 needs none": bool(apart) and scaled,
        "powersgd takes no scaler: what it keeps for later would be of another scale; bf16 needs none": (
            Strategy.POWERSGD in given and scaled
        ),
        "powersgd needs a fixed global_batch: what it leaves out looks like noise": (
            Strategy.POWERSGD in given and adaptive
        ),
        f"{spell(apart)} needs an optimizer that has not begun: make a new one": bool(apart)
        and any(isinstance(one, torch.optim.Optimizer) and one.state for one in optimizers.values()),
        f"{spell(sharded)} needs an optimizer of the model's own parameters, and of nothing else": (
            bool(sharded) and not several and _others(models, optimizers)
        ),
        f"{spell(sharded)} cannot cut up a parameter without dimensions; give it one": bool(sharded)
        and any(
            not parameter.dim()
            for model in models.values()
            if isinstance(model, torch.nn.Module)
            for parameter in model.parameters()
        ),
    }
    return [Mistake(FIELD, rule, spell(strategies)) for rule, broken in rules.items() if broken]


def _others(models: Mapping[str, Any], optimizers: Mapping[str, Any]) -> bool:
    """Return whether optimizers have parameters that belong to no model."""
    known = {
        id(one)
        for model in models.values()
        if isinstance(model, torch.nn.Module)
        for one in model.parameters()
    }
    held = (
        one
        for optimizer in optimizers.values()
        if isinstance(optimizer, torch.optim.Optimizer)
        for group in optimizer.param_groups
        for one in group["params"]
    )
    return any(id(one) not in known for one in held)
