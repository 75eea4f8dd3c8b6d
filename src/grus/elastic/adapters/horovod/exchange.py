"""Exchanges under Horovod's names: sums and copies over the present worker group."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from grus.elastic.adapters.horovod.world import world
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_state import state_dict

Average = "average"
Sum = "sum"


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,  # noqa: ARG001 - exchanges are matched by their order, not by name
    compression: object = None,  # noqa: ARG001 - there is none
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """A new tensor: the mean (or sum) over all workers."""
    result = tensor.detach().clone(memory_format=torch.contiguous_format)
    if prescale_factor != 1.0:
        result *= prescale_factor
    with world.together() as group:
        group.all_reduce(result).wait()
        workers = group.world
    if _averages(average, op):
        result = result / workers if result.is_floating_point() else result // workers
    return result * postscale_factor if postscale_factor != 1.0 else result


def allreduce_(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The same in place."""
    return tensor.detach().copy_(allreduce(tensor, *args, **kwargs))


def _averages(average: bool | None, op: str | None) -> bool:
    if op not in (None, Average, Sum):
        raise ValueError(f"op must be hvd.Average or hvd.Sum, not {op!r}")
    if op is not None and average is not None:
        raise ValueError("give op or average, not both")
    return average if average is not None else op != Sum


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:  # noqa: ARG001 - as above
    """The tensors of all workers one after the other; their first dimensions may differ."""
    if not tensor.dim():
        tensor = tensor.reshape(1)
    with world.together() as group:
        return torch.cat(_parts(group, tensor))


def _parts(group: Group, tensor: torch.Tensor) -> list[torch.Tensor]:
    lengths = [0.0] * group.world
    lengths[group.rank] = float(tensor.shape[0])
    found = []
    for source, length in enumerate(group.sum(lengths, tensor.device)):
        mine = source == group.rank
        part = tensor.detach().contiguous() if mine else tensor.new_empty((int(length), *tensor.shape[1:]))
        if length:
            group.broadcast(part, source).wait()
        found.append(part)
    return found


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,  # noqa: ARG001 - as above
) -> torch.Tensor:
    """A new tensor: that of `root_rank`."""
    result = tensor.detach().clone(memory_format=torch.contiguous_format)
    with world.together() as group:
        group.broadcast(result, root_rank).wait()
    return result


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """The same in place."""
    return tensor.detach().copy_(broadcast(tensor, root_rank, name))


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]], root_rank: int
) -> None:
    """Make the tensors of a state_dict (or of named_parameters()) those of `root_rank`."""
    named = sorted(params.items() if isinstance(params, Mapping) else params)
    for _, tensor in named:
        if isinstance(tensor, torch.Tensor):
            broadcast_(tensor, root_rank)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Make an optimizer's state that of `root_rank`."""
    optimizer.load_state_dict(sent(optimizer.state_dict(), root_rank))


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None) -> Any:  # noqa: ARG001 - as above
    """Return the value of `root_rank`: numbers, text, tensors, and lists, tuples and dicts of them.

    Other objects are not allowed: an object that carries code would let anybody who reaches the port run it.
    """
    return sent({"it": obj}, root_rank)["it"]


def sent(own: dict[str, Any], root: int) -> dict[str, Any]:
    """Return the root's nested state on all workers."""
    with world.together() as group:
        if group.world == 1:
            return own
        device = world.device
        if group.rank == root:
            _plain(own)
            state_dict.give(group, own, device)
            return own
        return state_dict.take(group, root, device, own, lambda _: "")


def _plain(own: dict[str, Any]) -> None:
    """Refuse before the others wait for it what they could not read."""
    buffer = io.BytesIO()
    torch.save(own, buffer)
    buffer.seek(0)
    torch.load(buffer, weights_only=True)
