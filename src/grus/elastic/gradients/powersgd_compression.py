"""Gradients as products of two thin matrices: PowerSGD (Vogels, Karimireddy and Jaggi, 2019).

A gradient of n rows and m columns, M, is sent as P = M·Q (n × rank) and then, with P made orthonormal, as Q =
Mᵀ·P (m × rank). Both are sums over the worker group, so that all workers have P·Qᵀ, the best guess at the sum
of all M. The part of a worker's own gradient that it leaves out (M - P·(Mᵀ·P)ᵀ) is kept by that worker and
added to its next gradient: nothing is lost, it is only delayed. Vectors and small matrices are sent as they
are.

The guess starts from the Q of the step before, which is the same in the whole group. A new worker group
starts from random numbers that all its members can compute. The part that a worker has kept is lost with the
worker.
"""

from collections.abc import Sequence

import torch

from grus.elastic.gradients.bucket_tensor import Envelope, dense
from grus.estimation.ddp_memory import RANK, sides, thin


class LowRank:
    """A wire (see `compression`)."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], rank: int = RANK) -> None:
        self._parameters = parameters
        self._thin = {
            index: _Thin(one, rank, seed=index) for index, one in enumerate(parameters) if thin(one, rank)
        }
        self._team = 0
        first = parameters[0]
        self._envelope = Envelope(len(parameters), first.dtype, first.device)
        self._second: torch.Tensor | None = None
        self._own: dict[int, torch.Tensor] = {}
        """This worker's part of Q, before the sum."""

    def open(self, team: int) -> None:
        if team != self._team:
            self._team = team
            for one in self._thin.values():
                one.start(team)
        self._envelope.make(
            [
                self._thin[index].rows * self._thin[index].rank if index in self._thin else one.numel()
                for index, one in enumerate(self._parameters)
            ]
        )

    def put(self, index: int, grad: torch.Tensor | None) -> None:
        self._envelope.mark(index, used=grad is not None)
        if index in self._thin:
            one = self._thin[index]
            one.take(dense(grad))
            torch.mm(one.matrix, one.right, out=self._summed(index))
        else:
            self._envelope.put(index, dense(grad))

    def _summed(self, index: int) -> torch.Tensor:
        """P of a thin one, in its place."""
        one = self._thin[index]
        return self._envelope.views[index].view(one.rows, one.rank)

    @property
    def flat(self) -> torch.Tensor:
        return self._envelope.flat

    def answer(self) -> torch.Tensor | None:
        if not self._thin:
            return None
        self._own = {}
        for index, one in self._thin.items():
            summed = self._summed(index)
            one.left = torch.linalg.qr(summed.float() if summed.dtype in _HALF else summed).Q.to(summed.dtype)
            self._own[index] = one.matrix.T @ one.left
        self._second = torch.cat([own.reshape(-1) for own in self._own.values()])
        return self._second

    def used(self) -> list[bool]:
        return self._envelope.used()

    def gradient(self, index: int) -> torch.Tensor:
        parameter = self._parameters[index]
        if index not in self._thin:
            return self._envelope.views[index].view(parameter.shape)
        one = self._thin[index]
        return (one.left @ self._rights()[index].T).view(parameter.shape)

    def _rights(self) -> dict[int, torch.Tensor]:
        assert self._second is not None
        pieces = self._second.split([own.numel() for own in self._own.values()])
        return {
            index: piece.view(own.shape)
            for (index, own), piece in zip(self._own.items(), pieces, strict=True)
        }

    def keep(self, index: int) -> None:
        if index in self._thin:
            self._thin[index].learn(self._own[index], self._rights()[index].clone())

    def drop(self) -> None:
        self._envelope.drop()
        self._second = None
        for one in self._thin.values():
            one.let_go()

    def close(self) -> None:
        self.drop()
        for one in self._thin.values():
            one.forget()


class _Thin:
    """One gradient's matrices."""

    def __init__(self, parameter: torch.nn.Parameter, rank: int, seed: int) -> None:
        self.rows, self.columns = sides(parameter)
        self.rank = rank
        self._like = parameter
        self._seed = seed
        self.right = torch.empty(0)
        self.left = torch.empty(0)
        self._kept: torch.Tensor | None = None
        self._matrix: torch.Tensor | None = None

    def start(self, team: int) -> None:
        """Start from random numbers, the same on all workers."""
        chance = torch.Generator().manual_seed(self._seed * 1_000_003 + team)
        right = torch.randn(self.columns, self.rank, generator=chance)
        self.right = right.to(device=self._like.device, dtype=self._like.dtype)

    def take(self, grad: torch.Tensor | None) -> None:
        """Take this step's gradient, plus the remainder of those before."""
        if grad is None:
            zero = torch.zeros(self.rows, self.columns, dtype=self._like.dtype, device=self._like.device)
            self._matrix = zero if self._kept is None else self._kept.clone()
        else:  # in place: the gradient's own memory is not needed any more
            self._matrix = grad.detach().reshape(self.rows, self.columns)
            if self._kept is not None:
                self._matrix += self._kept

    @property
    def matrix(self) -> torch.Tensor:
        assert self._matrix is not None
        return self._matrix

    def learn(self, own: torch.Tensor, right: torch.Tensor) -> None:
        self._kept = self.matrix.sub_(self.left @ own.T)  # in place: memory is almost at its peak here
        self._matrix = None
        self.right = right

    def let_go(self) -> None:
        self._matrix = None

    def forget(self) -> None:
        self._kept = None


_HALF = (torch.float16, torch.bfloat16)
