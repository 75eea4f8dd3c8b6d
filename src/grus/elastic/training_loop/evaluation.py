"""Helpers for evaluating a model between two steps: evaluation mode, equal statistics."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from grus.elastic.rendezvous.process_group import Group


@contextmanager
def evaluating(models: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Disable gradients and enter evaluation mode; afterwards restore every module's mode."""
    modes = {module: module.training for model in models for module in model.modules()}
    for module in modes:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def share_statistics(models: Iterable[torch.nn.Module], group: Group, device: torch.device) -> None:
    """Set the running statistics (BatchNorm) of all workers to their mean. Raises Broken.

    They are each worker's own, from the micro-batches that it has seen; training does not depend on them.
    """
    buffers = [one for model in models for one in model.buffers() if one.is_floating_point()]
    if not buffers or group.world == 1:
        return
    flat = torch.cat([one.detach().reshape(-1).to(device, torch.float64) for one in buffers])
    group.all_reduce(flat).wait()
    group.settle()
    flat /= group.world
    for one, piece in zip(buffers, flat.split([one.numel() for one in buffers]), strict=True):
        one.copy_(piece.view(one.shape))
