"""Sharded runs (ZeRO, FSDP): weights, gradients and optimizer state are divided over the worker group.

`fsdp` and `zero2` are torch's own `fully_shard`, block by block, in which torch gathers the weights and sums
the gradients. `zero1` leaves the model whole and its gradients to Grus's reducer; the optimizer works on this
worker's rows of each parameter, and receives the other rows from the other workers.

The worker group is fixed for the run: a lost worker takes its part of the state with it. Another size
requires a restart from the last checkpoint. A checkpoint is that of a plain run, whole: any number of workers
can resume from it, and so can a run without sharding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.utils._pytree import tree_map

from grus.elastic.data.adaptive_batch_size import BatchSizer
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_loop.validate_arguments import ONLY, Arguments
from grus.elastic.training_state import state_dict
from grus.elastic.training_state.optimizer_parameters import parameters_of, put_in_place
from grus.elastic.training_state.state_sync import TrainingState, begun_after
from grus.estimation.activation_checkpointing import shards
from grus.model.distributed_options import Strategy

TOGETHER = 4 << 20
"""Bytes that are gathered at once: enough for the network, little beside the model."""
OPTIMIZER_STATE = f"/parts/optimizer {ONLY}/state/"
MODEL_STATE = f"/parts/model {ONLY}/"

dist: Any = torch.distributed
"""Most of what is used of it here has no types."""


class Rows:
    """Stand-ins of `zero1`: this worker's rows of each parameter, in the parameter's own memory."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._model = parameters_of(optimizer)
        self._rows: list[torch.nn.Parameter] = []

    def begin(self, mesh: DeviceMesh) -> None:
        self._mesh = mesh
        self._rows = [
            torch.nn.Parameter(self._part(one.detach()), requires_grad=one.requires_grad)
            for one in self._model
        ]
        put_in_place(self._optimizer, self._model, self._rows)

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        return self._model

    def before(self) -> None:
        for one, rows in zip(self._model, self._rows, strict=True):
            rows.grad = self._part(one.grad) if one.grad is not None else None

    def after(self) -> None:
        changed = [one for one, rows in zip(self._model, self._rows, strict=True) if rows.grad is not None]
        for rows in self._rows:
            rows.grad = None
        for some in _together(changed):
            self._gather(some)

    def refresh(self) -> None:
        """Do nothing: the stand-ins share the parameters' memory."""

    def _part(self, whole: torch.Tensor) -> DTensor:
        own = _rows(whole, self._mesh.get_local_rank(), self._mesh.size())
        return DTensor.from_local(
            own, self._mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=whole.stride()
        )

    def _gather(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Gather all workers' rows of these parameters, in one exchange."""
        rank, world = self._mesh.get_local_rank(), self._mesh.size()
        sizes = [_rows(one, 0, world).numel() for one in parameters]  # no rank has more than the first
        own = parameters[0].new_zeros(sum(sizes))
        for one, room in zip(parameters, own.split(sizes), strict=True):
            mine = _rows(one.detach(), rank, world).reshape(-1)
            room[: mine.numel()].copy_(mine)
        everybody = own.new_empty(world * own.numel())
        dist.all_gather_into_tensor(everybody, own)
        for other, theirs in enumerate(everybody.split(own.numel())):
            for one, found in zip(parameters, theirs.split(sizes), strict=True):
                rows = _rows(one.detach(), other, world)
                rows.copy_(found[: rows.numel()].view(rows.shape))


class Sharding:
    """Divides a run's state over its worker group."""

    def __init__(self, arguments: Arguments, device: torch.device, rows: Rows | None) -> None:
        self._is = arguments
        self._device = device
        self._rows = rows
        self._mesh: DeviceMesh | None = None

    def begin(self, group: Group) -> None:
        self._mesh = init_device_mesh(self._device.type, (group.world,))
        if self._rows is not None:
            self._rows.begin(self._mesh)
        else:
            self._cut(self._mesh)

    def _cut(self, mesh: DeviceMesh) -> None:
        model: Any = self._is.models[ONLY]
        model = getattr(model, "_orig_mod", model)  # for a compiled module, the original one
        own = parameters_of(self._is.optimizers[ONLY])
        names = {id(one): name for name, one in model.named_parameters()}
        away = Strategy.OFFLOAD in self._is.strategies
        policy = CPUOffloadPolicy(pin_memory=self._device.type == "cuda") if away else OffloadPolicy()
        how: dict[str, Any] = {
            "mesh": mesh,
            "reshard_after_forward": Strategy.FSDP in self._is.strategies,
            "offload_policy": policy,
        }
        for part in shards(model):
            fully_shard(part, **how)
        fully_shard(model, **how)
        now = dict(model.named_parameters())
        put_in_place(self._is.optimizers[ONLY], own, [now[names[id(one)]] for one in own])

    def whole(self, found: dict[str, Any], *, keep: bool) -> dict[str, Any]:
        """Return the state with all its parts together: all
        must call this; only the worker that keeps it gets it.
        """

        def together(value: Any) -> Any:
            if isinstance(value, DTensor):
                gathered = value.full_tensor()
                return gathered.cpu() if keep else None
            return value

        complete: dict[str, Any] = tree_map(together, found)
        return complete

    def part(self, path: str, whole: torch.Tensor) -> torch.Tensor:
        """Return this worker's part of a tensor of the whole state."""
        like = self._like(path)
        if not isinstance(like, DTensor) or like.shape != whole.shape:
            return whole
        return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

    def _like(self, path: str) -> torch.Tensor | None:
        """The tensor that one of the state belongs to."""
        if path.startswith(OPTIMIZER_STATE):
            index = int(path.removeprefix(OPTIMIZER_STATE).split("/")[0])
            return parameters_of(self._is.optimizers[ONLY])[index]
        if path.startswith(MODEL_STATE):
            found = self._is.models[ONLY].state_dict().get(path.removeprefix(MODEL_STATE))
            return found if isinstance(found, torch.Tensor) else None
        return None


class ShardedTrainingState(TrainingState):
    """Progress of a worker that holds only a part of the state."""

    def __init__(
        self, arguments: Arguments, sizer: BatchSizer | None, samples: int, sharding: Sharding
    ) -> None:
        super().__init__(arguments, sizer, samples)
        self._models: Mapping[str, torch.nn.Module] = arguments.models
        self._sharding = sharding
        self._first = True

    def capture(self) -> dict[str, Any]:
        """Return the state, to the first worker; all must call this, at the same step."""
        return self._sharding.whole(super().capture(), keep=self._first)

    def level(self, group: Group, device: torch.device, saved: Callable[[], dict[str, Any] | None]) -> bool:
        """Begin the run as its first worker would: from its checkpoint, or with its model."""
        self._first = group.rank == 0
        found = saved() if self._first else None
        begun = begun_after(found.get("begun", 0) if found is not None else 0) if self._first else 0
        there, number = group.sum([1.0 if found is not None else 0.0, float(begun)], device)
        if not there:
            self._share_models(group, device)
        self._sharding.begin(group)
        if there:
            self.restore(state_dict.hand_out(group, found, device, self._sharding.part))
        self.begun = int(number)
        self._whole = True
        return False

    def _share_models(self, group: Group, device: torch.device) -> None:
        own = state_dict.capture(self._models)
        if group.rank == 0:
            state_dict.give(group, own, device, sure=True)
        else:
            state_dict.take(group, 0, device, own, lambda _: "", sure=True)


def _rows(whole: torch.Tensor, rank: int, world: int) -> torch.Tensor:
    """A worker's rows of a tensor: as many for each, fewer (or none) for the last ones."""
    each = -(-whole.shape[0] // world)
    return whole[min(rank * each, whole.shape[0]) : (rank + 1) * each]


def _together(parameters: Sequence[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Yield groups of parameters of one dtype each, limited in bytes."""
    some: list[torch.nn.Parameter] = []
    size = 0
    for one in sorted(parameters, key=lambda one: str(one.dtype)):
        bytes_ = one.numel() * one.element_size()
        if some and (some[0].dtype != one.dtype or size + bytes_ > TOGETHER):
            yield some
            some, size = [], 0
        some.append(one)
        size += bytes_
    if some:
        yield some
