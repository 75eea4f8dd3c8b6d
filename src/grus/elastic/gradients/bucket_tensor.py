"""The long tensor in which the gradients of one bucket travel.

Behind the gradients ride as many numbers as there are parameters: how many workers have used each.
"""

from collections.abc import Sequence

import torch


class Envelope:
    """Flat send buffer of parameters; allocated when there is a receiver, sized by the code that fills it."""

    def __init__(self, count: int, dtype: torch.dtype, device: torch.device) -> None:
        self._count = count
        self._dtype = dtype
        self._device = device
        self._flat: torch.Tensor | None = None
        self.views: list[torch.Tensor] = []
        """The places of the parameters, one after the other."""

    def make(self, sizes: Sequence[int]) -> None:
        """Allocate the buffer, unless it exists."""
        if self._flat is None:
            self._flat = torch.empty(sum(sizes) + self._count, dtype=self._dtype, device=self._device)
            self.views = list(self._flat[: -self._count].split(list(sizes)))

    @property
    def flat(self) -> torch.Tensor:
        assert self._flat is not None
        return self._flat

    @property
    def _tail(self) -> torch.Tensor:
        return self.flat[-self._count :]

    def mark(self, index: int, *, used: bool) -> None:
        """Record whether this worker has used the parameter."""
        self._tail[index] = float(used)

    def used(self) -> list[bool]:
        """Return, for each parameter, whether any worker has used it."""
        found: list[bool] = self._tail.gt(0).tolist()
        return found

    def put(self, index: int, dense: torch.Tensor | None) -> None:
        """A gradient as it is, or zeros."""
        if dense is None:
            self.views[index].zero_()
        else:
            self.views[index].copy_(dense.reshape(-1))

    def drop(self) -> None:
        """Drop the buffer; a library whose exchange was aborted may still write to the old one."""
        self._flat = None
        self.views = []


def dense(grad: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient with all its zeros."""
    return grad.to_dense() if grad is not None and grad.is_sparse else grad
