"""Place of a worker in a split training: its number, its device, its neighbors, and their agreements."""

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn

from grus.elastic.training_loop.devices import own_device
from grus.estimation.gpus import known, sized, virtual
from grus.model.errors import BadInput, Mistake
from grus.partition.parse_devices import Gpu

BUCKET = 25 << 20
"""Bytes of gradients that travel as one."""


class Lost(Exception):
    """Another worker is gone, and with it a part of the model."""


@dataclass(frozen=True, slots=True)
class RankPlacement:
    rank: int
    world: int
    device: torch.device

    def agreed(self, decide: Callable[[], Any]) -> Any:
        """Return the first worker's decision on all workers,
        or raise the error that it finds on all of them.
        """
        said: list[Any] = [None, None]
        if self.rank == 0:
            try:
                said[0] = decide()
            except BadInput as error:
                said[1] = error.mistakes
        with noticing():
            dist.broadcast_object_list(said, src=0, device=torch.device("cpu"))
        if said[1] is not None:
            raise BadInput(said[1])
        return said[0]

    def smallest(self, number: int) -> int:
        found = torch.tensor(number, dtype=torch.int64)
        with noticing():
            dist.all_reduce(found, op=dist.ReduceOp.MIN)
        return int(found)

    def summed(self, numbers: Sequence[float]) -> list[float]:
        found = torch.tensor(numbers, dtype=torch.float64)
        with noticing():
            dist.all_reduce(found)
        return found.tolist()

    def together(self) -> None:
        """Return when all workers are here."""
        self.summed([0.0])


@contextmanager
def joined() -> Iterator[RankPlacement]:
    """One of the workers that RANK and WORLD_SIZE tell of, connected to the others."""
    device = own_device()
    if "RANK" not in os.environ or "MASTER_ADDR" not in os.environ:
        rule = "needs several workers: a job with `launch: per-gpu` and 2 GPUs or more, or torchrun"
        raise BadInput([Mistake("split", rule)])
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    with noticing():
        dist.init_process_group(backend)
    try:
        yield RankPlacement(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


@contextmanager
def noticing() -> Iterator[None]:
    """Turn an exchange's failure into Lost if a worker is gone."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        if not _is_loss(error):
            raise
        raise Lost(str(error)) from error


def _is_loss(error: BaseException) -> bool:
    """Return whether the error means a lost worker.

    gloo reports a closed connection as a plain error with its source file in the text.
    """
    return isinstance(error, dist.DistError) or "/gloo/" in str(error) or "Connection reset" in str(error)


def gpu_of(place: RankPlacement) -> Gpu:
    """The smallest that any of the workers has, as far as its type is known."""
    if place.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(place.device)
        kind = known(torch.cuda.get_device_name(place.device)) or sized(total)
        return Gpu(kind, place.smallest(free))
    # A virtual GPU's memory is what the kernel allows this process.
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    memory = psutil.virtual_memory().available // place.world if limit == resource.RLIM_INFINITY else limit
    memory = place.smallest(memory)
    return Gpu(virtual(memory), memory)


def average(parameters: Sequence[nn.Parameter], group: dist.ProcessGroup, copies: int) -> None:
    """The gradients' means over the copies of a stage, in pieces that do not take much memory."""
    waiting: list[Tensor] = []
    size = 0
    with noticing():
        for gradient in (one.grad for one in parameters if one.grad is not None):
            if waiting and (size + gradient.nbytes > BUCKET or gradient.dtype != waiting[0].dtype):
                _exchange(waiting, group, copies)
                waiting, size = [], 0
            waiting.append(gradient)
            size += gradient.nbytes
        if waiting:
            _exchange(waiting, group, copies)


def _exchange(gradients: Sequence[Tensor], group: dist.ProcessGroup, copies: int) -> None:
    flat = torch.cat([one.reshape(-1) for one in gradients])
    dist.all_reduce(flat, group=group)
    flat /= copies
    for gradient, piece in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
        gradient.copy_(piece.view_as(gradient))
