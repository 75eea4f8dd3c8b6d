"""Wire formats of a bucket's gradients: unchanged, as float16, or (`power_sgd`) as thin matrices.

A wire turns gradients into one long tensor (`bucket_tensor`) that is summed over the worker group, and the
sum into gradients again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch

from grus.elastic.gradients.bucket_tensor import Envelope, dense
from grus.elastic.gradients.powersgd_compression import LowRank
from grus.model.distributed_options import Strategy

Parameters = Sequence[torch.nn.Parameter]


class Wire(Protocol):
    """One bucket's. In a step: `open`, `put` for each parameter, sums, `answer`, sums, `gradient`, `keep`."""

    def open(self, team: int) -> None:
        """Start a step, in the worker group of this number."""
        ...

    def put(self, index: int, grad: torch.Tensor | None) -> None:
        """The gradient of a parameter: the sum over this worker's micro-batches, or nothing."""
        ...

    @property
    def flat(self) -> torch.Tensor:
        """Return the tensor to sum, once every gradient has been put."""
        ...

    def answer(self) -> torch.Tensor | None:
        """Return the tensor to sum next, now that the first sum is there; None if there is none."""
        ...

    def used(self) -> list[bool]:
        """Return, for each parameter, whether any worker has used it."""
        ...

    def gradient(self, index: int) -> torch.Tensor:
        """Return the sum over the worker group."""
        ...

    def keep(self, index: int) -> None:
        """The sum of this parameter's gradients was true, and is used."""
        ...

    def drop(self) -> None:
        """Drop the buffers: a library whose exchange was aborted may still write to them."""
        ...

    def close(self) -> None:
        """Drop all state: there is no receiver left."""
        ...


class Plain:
    """Wire for gradients unchanged, or in numbers of another type."""

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
        """Do nothing: this wire leaves nothing out."""

    def drop(self) -> None:
        self._envelope.drop()

    def close(self) -> None:
        self.drop()


_WIDE = (torch.float32, torch.float64)


def wire_for(strategies: Iterable[Strategy]) -> Callable[[Parameters], Wire]:
    """Return the function that makes the wire of a bucket, according to the strategies."""
    given = set(strategies)
    if Strategy.FP16_GRADIENTS in given:
        return lambda parameters: Plain(parameters, torch.float16)
    return LowRank if Strategy.POWERSGD in given else Plain
