"""Gradient reduction: sums over the worker group, in buckets, while the backward pass still runs.

It replaces torch's own DistributedDataParallel for three reasons. Its buckets depend on the first steps (a
worker that joins later would have others). Its world size is fixed. And it decides during the forward pass
what a backward pass will synchronize. Here the buckets follow from the list of parameters alone, and the
model is never wrapped.

Each micro-batch's loss is weighted by its part of the step's samples before its backward pass, so that a
plain sum over workers is the gradient of the mean over the whole step, for any number of workers.

A parameter that no worker has used keeps the gradient None. The wire of a bucket (`compression`) decides the
form in which its gradients are sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from grus.elastic.gradients.compression import Plain, Wire
from grus.elastic.rendezvous.collective_backends import Broken, Pending
from grus.elastic.rendezvous.process_group import Group

BUCKET = 25 << 20
"""Bytes of a bucket: enough to use the network well, few enough that the first leaves early."""


@dataclass(slots=True)
class _Bucket:
    parameters: list[torch.nn.Parameter]
    wire: Wire
    left: int = 0
    """Number of parameters whose gradient has not arrived yet."""
    used: list[bool] = field(default_factory=list)
    pending: Pending | None = None


class Gradients:
    """Gradients of the trainable parameters of one optimizer, unchanged."""

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        raise NotImplementedError

    def drop_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def scale(self, factor: float) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(factor)


class Reducer(Gradients):
    """Sums gradients over the worker group, in buckets."""

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        group: Group,
        bucket_bytes: int = BUCKET,
        wire: Callable[[Sequence[torch.nn.Parameter]], Wire] = Plain,
    ) -> None:
        self._parameters = [one for one in parameters if one.requires_grad]
        self._group = group
        self._buckets = [_Bucket(part, wire(part)) for part in _pack(self.parameters, bucket_bytes)]
        self._place = {
            id(parameter): (bucket, index)
            for bucket in self._buckets
            for index, parameter in enumerate(bucket.parameters)
        }
        self._armed = False
        self._launched = 0
        self._broken: Broken | None = None
        self._hooks = [one.register_post_accumulate_grad_hook(self._arrived) for one in self.parameters]

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        return self._parameters

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def arm(self) -> None:
        """The backward pass that comes is the last of this step: send each bucket as soon as it is full."""
        self._launched = 0
        self._broken = None
        for bucket in self._buckets:
            bucket.left = len(bucket.parameters)
            bucket.used = [False] * bucket.left
            bucket.pending = None
            if self._group.world > 1:
                bucket.wire.open(self._group.number)
            else:
                bucket.wire.close()
        self._armed = self._group.world > 1

    def finish(self) -> None:
        """Wait for the sums and make them the gradients. Not to be trusted before the group is settled."""
        if self._group.world == 1:
            return
        if not self._armed:  # a worker without a part in this step
            self.arm()
        self._armed = False
        for bucket in self._buckets[self._launched :]:
            for index, parameter in enumerate(bucket.parameters):
                if not bucket.used[index]:
                    _fill(bucket, index, parameter.grad)
        self._launch(everything=True)
        if self._broken is not None:
            raise self._broken
        second = []
        for bucket in self._buckets:
            assert bucket.pending is not None
            bucket.pending.wait()
            if (answer := bucket.wire.answer()) is not None:
                second.append(self._group.all_reduce(answer))
        for pending in second:
            pending.wait()

    def adopt(self) -> None:
        """The sums are true: they become the gradients."""
        if self._group.world == 1:
            return
        for bucket in self._buckets:
            used = bucket.used if all(bucket.used) else bucket.wire.used()
            for index, parameter in enumerate(bucket.parameters):
                parameter.grad = bucket.wire.gradient(index) if used[index] else None
                if used[index]:
                    bucket.wire.keep(index)

    def drop(self) -> None:
        """Drop this step and its buffers: a library whose
        exchange was aborted may still write to the old ones.
        """
        self._armed = False
        for bucket in self._buckets:
            bucket.pending = None
            bucket.wire.drop()
        self.drop_gradients()

    def squared_norm(self) -> torch.Tensor:
        grads = [one.grad for one in self.parameters if one.grad is not None]
        if not grads:
            return torch.zeros((), dtype=torch.float64)
        return torch.stack(torch._foreach_norm(grads)).double().square().sum()

    # ------------------------------------------------------------------------------------------ inside

    def _arrived(self, parameter: torch.Tensor) -> None:
        """Called by autograd when a parameter's gradient is complete."""
        if not self._armed:
            return
        bucket, index = self._place[id(parameter)]
        if bucket.used[index]:
            return
        _fill(bucket, index, parameter.grad)
        bucket.left -= 1
        if bucket.left == 0:
            self._launch()

    def _launch(self, *, everything: bool = False) -> None:
        """Send full buckets, in their order: every worker must send the same one first."""
        while self._launched < len(self._buckets):
            bucket = self._buckets[self._launched]
            if (bucket.left and not everything) or self._broken is not None:
                return
            try:
                bucket.pending = self._group.all_reduce(bucket.wire.flat)
            except Broken as error:  # raised in `finish`, not through autograd
                self._broken = error
                return
            self._launched += 1


class Scattered(Gradients):
    """Torch itself sums them, in parts, as they come."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    @property
    def parameters(self) -> Sequence[torch.nn.Parameter]:
        """Return the present parameters: they are replaced by their parts when a worker group starts."""
        every = (one for group in self._optimizer.param_groups for one in group["params"])
        return [one for one in every if one.requires_grad]

    def arm(self) -> None:
        return

    def finish(self) -> None:
        return

    def adopt(self) -> None:
        return

    def drop(self) -> None:
        self.drop_gradients()

    def squared_norm(self) -> torch.Tensor:
        raise NotImplementedError("a batch that follows the noise is refused before")


def _pack(parameters: Sequence[torch.nn.Parameter], most: int) -> list[list[torch.nn.Parameter]]:
    """Last parameters first, as their gradients come first; one kind of number a bucket."""
    groups: list[list[torch.nn.Parameter]] = []
    size = 0
    for one in reversed(parameters):
        bytes_ = one.numel() * one.element_size()
        alike = groups and (groups[-1][0].dtype, groups[-1][0].device) == (one.dtype, one.device)
        if not alike or size + bytes_ > most:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += bytes_
    return groups


def _fill(bucket: _Bucket, index: int, grad: torch.Tensor | None) -> None:
    """Put a gradient in its place: the sum over this step's micro-batches of this worker, or nothing."""
    bucket.used[index] = grad is not None
    bucket.wire.put(index, grad)
