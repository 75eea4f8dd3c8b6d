"""One step's exchange: losses, gradients and a few flags of every worker, sent, settled, and only then used.

The flags ride along with the gradients: what one worker has heard of, all of them know at the end of the same
step. They set out before the last backward pass, so that they cost nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from grus.elastic.arguments import Arguments
from grus.elastic.backends import Broken, Pending
from grus.elastic.group import Group
from grus.elastic.plan import Micro
from grus.elastic.reducer import Reducer, Scattered
from grus.elastic.standins import OnHost, StandIns, Themselves
from grus.elastic.wires import wire_for
from grus.model.strategies import Strategy

if TYPE_CHECKING:
    from grus.elastic.sharding import Rows


class Flags(NamedTuple):
    """What rides along with a step, summed over the team; the loss of an only optimizer comes after it."""

    team: float = 0.0
    """The number of the next team, as far as a worker is ready to begin with it; 0 otherwise."""
    square: float = 0.0
    """… squared: from both sums everybody knows whether all workers mean the same one."""
    stuck: float = 0.0
    """Workers that could not form the next team: all wait with them for another one."""
    end: float = 0.0
    """Workers that have heard that the run is to end."""
    batch: float = 0.0
    """The first worker's word: samples of the next step; 0 if nothing is to change."""
    factor: float = 0.0
    """The first worker's word: what this step's learning rate is multiplied by; 0 for 1."""
    small: float = 0.0
    """Squared norms of the small gradients of the step before, and how many there are."""
    smalls: float = 0.0
    weight: float = 0.0
    """Part of the step's samples that was there: 1, but where streams end."""
    save: float = 0.0
    """The first worker's word, where all must save together: after this step."""

    @classmethod
    def of(cls, team: int, *, stuck: bool, end: bool) -> "Flags":
        return cls(team=float(team), square=float(team) ** 2, stuck=float(stuck), end=float(end))

    def change(self, world: int) -> bool:
        """Whether to change teams now. Only equal numbers have these sums: all are ready for the same one."""
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
            # It would begin with its first loss, but a worker without a part in its first step has none.
            arguments.scaler.scale(torch.zeros(1, device=device))
        self._losses: dict[str, torch.Tensor] = {}
        """Of this worker's micro-batches, weighted, since the optimizer of that name was last applied."""
        self._flags = torch.zeros(0)
        self._pending: Pending | None = None
        self._broken = False

    def _stand_in(self, optimizer: torch.optim.Optimizer) -> StandIns:
        if Strategy.ZERO1 in self._is.strategies:
            from grus.elastic.sharding import Rows  # takes a second, which others need not wait for

            self.rows = Rows(optimizer)
            return self.rows
        # Where the device is the host, there is nothing to relieve it of; torch does it to what it cuts up.
        away = Strategy.OFFLOAD in self._is.strategies and self._device.type != "cpu" and not self._is.cut
        return OnHost(optimizer) if away else Themselves(optimizer)

    def refresh(self) -> None:
        """The models were changed by somebody else than their optimizers."""
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
        """Sum the gradients of one optimizer; gives the mean loss. Raises Broken."""
        loss, self._losses[name] = self._losses[name], self._nothing()
        pending = self._group.all_reduce(loss)
        self._reducers[name].finish()
        pending.wait()
        self._group.settle()
        return float(loss)

    def settle(self, names: Sequence[str]) -> tuple[Flags, list[float]]:
        """The vote: nothing of a step is used unless all of it is true. Raises Broken.

        Gives the flags, and the mean loss if there is only one optimizer.
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
        """Let an optimizer use the gradients, which are true now."""
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
            scaler.update()  # now and not at the end of the step: it is part of what must not be done twice
        else:
            optimizer.step()
        self._standins[name].after()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        reducer.drop_gradients()

    def _nothing(self) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.float64, device=self._device)

    def scale(self) -> float:
        """What all gradients are multiplied by until they are applied."""
        return float(self._is.scaler.get_scale()) if self._is.scaler is not None else 1.0

    def give_up(self) -> None:
        """Somebody was lost: forget this step and let go of the team."""
        self._pending = None
        for reducer in self._reducers.values():
            reducer.drop()
        self._group.leave()
