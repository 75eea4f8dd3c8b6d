"""How the gradients of one bucket travel: as they are, as float16, or (`lowrank`) as thin matrices.

A wire turns gradients into one long tensor (`envelope`) that is summed over the team, and the sum into
gradients again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch

from grus.elastic.envelope import Envelope, dense
from grus.elastic.lowrank import LowRank
from grus.model.strategies import Strategy

Parameters = Sequence[torch.nn.Parameter]


class Wire(Protocol):
    """One bucket's. In a step: `open`, `put` for each parameter, sums, `answer`, sums, `gradient`, `keep`."""

    def open(self, team: int) -> None:
        """A step begins, in the team of this number."""
        ...

    def put(self, index: int, grad: torch.Tensor | None) -> None:
        """The gradient of a parameter: the sum over this worker's micro-batches, or nothing."""
        ...

    @property
    def flat(self) -> torch.Tensor:
        """What is summed, when every gradient has been put."""
        ...

    def answer(self) -> torch.Tensor | None:
        """What is summed next, now that the first sum is there; None if that was all."""
        ...

    def used(self) -> list[bool]:
        """Whether anybody has used each parameter."""
        ...

    def gradient(self, index: int) -> torch.Tensor:
        """The sum over the team."""
        ...

    def keep(self, index: int) -> None:
        """The sum of this parameter's gradients was true, and is used."""
        ...

    def drop(self) -> None:
        """Forget the buffers: a library that was let go may still write to them."""
        ...

    def close(self) -> None:
        """Nobody is there to send anything to: forget everything."""
        ...


class Plain:
    """As they are, or in numbers of another kind."""

    def __init__(self, parameters: Parameters, kind: torch.dtype | None = None) -> None:
        self._parameters = parameters
        first = parameters[0]
        own = kind if kind is not None and first.dtype in _WIDE else first.dtype
        self._envelope = Envelope(len(parameters), own, first.device)

    def open(self, team: int) -> None:  # noqa: ARG002 - the same in every team
        self._envelope.make([one.numel() for one in self._parameters])

    def put(self, index: int, grad: torch.Tensor | None) -> None:
        self._envelope.mark(index, used=grad is not None)
        self._envelope.put(index, dense(grad))

    @property
    def flat(self) -> torch.Tensor:
        return self._envelope.flat

    def answer(self) -> torch.Tensor | None:
        return None

    def used(self) -> list[bool]:
        return self._envelope.used()

    def gradient(self, index: int) -> torch.Tensor:
        parameter = self._parameters[index]
        return self._envelope.views[index].view(parameter.shape).to(parameter.dtype)

    def keep(self, index: int) -> None:
        """Nothing was left out."""

    def drop(self) -> None:
        self._envelope.drop()

    def close(self) -> None:
        self.drop()


_WIDE = (torch.float32, torch.float64)


def wire_for(strategies: Iterable[Strategy]) -> Callable[[Parameters], Wire]:
    """What makes the wire of a bucket, as the strategies say."""
    given = set(strategies)
    if Strategy.FP16_GRADIENTS in given:
        return lambda parameters: Plain(parameters, torch.float16)
    return LowRank if Strategy.POWERSGD in given else Plain
