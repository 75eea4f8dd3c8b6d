"""Exchange of one step: losses, gradients and a few flags of every worker, sent, settled, and only then used.

The flags are sent with the gradients: a change that one worker has received is known to all at the end of the
same step. They are sent before the last backward pass, so that they cost no time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from grus.elastic.data.sample_schedule import Micro
from grus.elastic.gradients.bucket_reducer import Reducer, Scattered
from grus.elastic.gradients.compression import wire_for
from grus.elastic.rendezvous.collective_backends import Broken, Pending
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.training_loop.validate_arguments import Arguments
from grus.elastic.training_state.optimizer_parameters import (
    DirectParameters,
    HostParameters,
    OptimizerParameters,
)
from grus.model.distributed_options import Strategy

if TYPE_CHECKING:
    from grus.elastic.training_state.sharding import Rows


class Flags(NamedTuple):
    """Flags of a step, summed over the worker group; the loss of a single optimizer comes after them."""

    team: float = 0.0
    """Number of the next worker group, once this worker is ready to start with it; 0 otherwise."""
    square: float = 0.0
    """Sum of the squared numbers: both sums show whether all workers mean the same group."""
    stuck: float = 0.0
    """Number of workers that could not form the next group: all wait with them for another one."""
    end: float = 0.0
    """Number of workers that have received that the run is to end."""
    batch: float = 0.0
    """Samples of the next step, set by the first worker; 0 if nothing is to change."""
    factor: float = 0.0
    """Factor on this step's learning rate, set by the first worker; 0 for 1."""
    small: float = 0.0
    """Squared norms of the small gradients of the step before, and how many there are."""
    smalls: float = 0.0
    weight: float = 0.0
    """Part of the step's samples that was there: 1, but where streams end."""
    save: float = 0.0
    """Request of the first worker that all save together after this step."""

    @classmethod
    def of(cls, team: int, *, stuck: bool, end: bool) -> "Flags":
        return cls(team=float(team), square=float(team) ** 2, stuck=float(stuck), end=float(end))

    def change(self, world: int) -> bool:
        """Return whether to change worker groups now.

        Only equal numbers have these sums: all workers are ready for the same group.
        """
        return self.stuck > 0 or (self.team > 0 and self.team**2 == world * self.square)


class Exchange:
    def __init__(self, arguments: Arguments, group: Group, device: torch.device) -> None:
        self._is = arguments
        self._group = group
        self._device = device
        self.rows: Rows | None = None
        self._standins = {name: self._stand_in(one) for name, one in arguments.optimizers.items()}
        wire = wire_for(arguments.strategies)
        self._reducers: dict[str, Reducer | Scattered] = {
            name: Scattered(arguments.optimizers[name])
            if arguments.cut
            else Reducer(one.parameters, self._group, wire=wire)
            for name, one in self._standins.items()
        }
        if arguments.scaler is not None:
            # It would start with its first loss, but a worker without a part in its first step has none.
            arguments.scaler.scale(torch.zeros(1, device=device))
        self._losses: dict[str, torch.Tensor] = {}
        """Weighted losses of this worker's micro-batches
        since the optimizer of that name was last applied.
        """
        self._flags = torch.zeros(0)
        self._pending: Pending | None = None
        self._broken = False

    def _stand_in(self, optimizer: torch.optim.Optimizer) -> OptimizerParameters:
        if Strategy.ZERO1 in self._is.strategies:
            from grus.elastic.training_state.sharding import (
                Rows,  # takes a second, which others need not wait for
            )

            self.rows = Rows(optimizer)
            return self.rows
        # Where the device is the host, there is nothing to offload; torch offloads what it shards.
        away = Strategy.OFFLOAD in self._is.strategies and self._device.type != "cpu" and not self._is.cut
        return HostParameters(optimizer) if away else DirectParameters(optimizer)

    def refresh(self) -> None:
        """Reload the parameters, which were changed by code other than their optimizers."""
        for standin in self._standins.values():
            standin.refresh()

    def begin(self) -> None:
        """A step begins, perhaps again."""
        self._losses = {name: self._nothing() for name in self._reducers}
        self._pending = None
        self._broken = False

    def reducer(self, name: str) -> Reducer | Scattered:
        return self._reducers[name]

    def count(self, loss: torch.Tensor, micro: Micro, name: str) -> None:
        self._losses[name] += loss.detach().to(torch.float64) * micro.weight

    def send(self, flags: Flags, *, arm: Sequence[str] = ()) -> None:
        """Send the flags; the gradients of `arm` follow by themselves during the backward pass that comes."""
        told = torch.tensor(flags, dtype=torch.float64, device=self._device)
        self._flags = told if self._is.several else torch.cat([told, *self._losses.values()])
        try:
            self._pending = self._group.all_reduce(self._flags)
        except Broken:
            self._broken = True
        for name in arm:
            self._reducers[name].arm()

    def backward(self, loss: torch.Tensor, micro: Micro, only: str | None = None) -> None:
        """Weighted by the micro-batch's part of the step; `only` for the parameters of one optimizer."""
        weighted = loss * micro.weight
        if self._is.cut:
            weighted = weighted * self._group.world  # torch takes the mean over the workers, not the sum
        if self._is.scaler is not None:
            weighted = self._is.scaler.scale(weighted)
        inputs = self._reducers[only].parameters if only is not None else None
        weighted.backward(inputs=inputs)

    def sum(self, name: str) -> float:
        """Sum the gradients of one optimizer; return the mean loss. Raises Broken."""
        loss, self._losses[name] = self._losses[name], self._nothing()
        pending = self._group.all_reduce(loss)
        self._reducers[name].finish()
        pending.wait()
        self._group.settle()
        return float(loss)

    def settle(self, names: Sequence[str]) -> tuple[Flags, list[float]]:
        """Settle the step: no result of it is used unless all of it is valid. Raises Broken.

        Return the flags, and the mean loss if there is only one optimizer.
        """
        if self._broken or self._pending is None:
            raise Broken("the flags could not be sent")
        for name in names:
            self._reducers[name].finish()
        self._pending.wait()
        self._group.settle()
        found = self._flags.tolist()
        return Flags(*found[: len(Flags._fields)]), found[len(Flags._fields) :]

    def apply(self, name: str, factor: float = 1.0) -> None:
        """Let an optimizer use the gradients, which are valid now."""
        reducer, optimizer, scaler = self._reducers[name], self._is.optimizers[name], self._is.scaler
        if self._is.clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(reducer.parameters, self._is.clip_norm)
        rates = [group["lr"] for group in optimizer.param_groups]
        if factor != 1.0:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor
        self._standins[name].before()
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()  # now and not at the end of the step: it must not be done twice either
        else:
            optimizer.step()
        self._standins[name].after()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        reducer.drop_gradients()

    def _nothing(self) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.float64, device=self._device)

    def scale(self) -> float:
        """Return the factor on all gradients until they are applied."""
        return float(self._is.scaler.get_scale()) if self._is.scaler is not None else 1.0

    def give_up(self) -> None:
        """Forget this step and leave the worker group, because a worker was lost."""
        self._pending = None
        for reducer in self._reducers.values():
            reducer.drop()
        self._group.leave()
