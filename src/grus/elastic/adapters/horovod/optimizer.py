"""DistributedOptimizer: an optimizer whose steps wait for the gradients of all workers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from grus.elastic.adapters.horovod.exchange import Average, Sum
from grus.elastic.adapters.horovod.world import world
from grus.elastic.gradients.bucket_reducer import Reducer


class Compression:
    """Gradient compression for the exchange, under Horovod's name; only `none` exists."""

    none = None


class _Distributed:
    """Methods and fields that `DistributedOptimizer` adds to an optimizer's class."""

    _reducer: Reducer
    _op: str
    _automatic: bool
    backward_passes_per_step: int

    def synchronize(self) -> None:
        """Make each gradient the mean (or sum) over all workers, now instead of in `step`."""
        with world.together() as group:
            self._reducer.finish()
            group.settle()
            self._reducer.adopt()
            workers = group.world
        grads = [one.grad for one in self._reducer.parameters if one.grad is not None]
        if self._op == Average and workers > 1 and grads:
            torch._foreach_div_(grads, float(workers))

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let a `step` skip the synchronization, after a call of `synchronize`."""
        self._automatic = False
        try:
            yield
        finally:
            self._automatic = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number of passes may come before a step, and their gradients add up, as in Horovod."""
        self.backward_passes_per_step = passes


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: object = None,  # noqa: ARG001 - there is none
    backward_passes_per_step: int = 1,
    op: str = Average,
    **_: object,
) -> Any:
    """The same optimizer; from now on its `step` first exchanges the gradients with all workers.

    It is changed in place, so that schedulers made before stay attached. Gradients leave in `step`, not
    during the backward pass: any number of backward passes may come before it.
    """
    if op not in (Average, Sum):
        raise ValueError(f"op must be hvd.Average or hvd.Sum, not {op!r}")
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    _check_names(named_parameters, parameters)
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    made: Any = optimizer
    made._reducer = Reducer(parameters, world.group)
    made._op, made._automatic = op, True
    made.set_backward_passes_per_step(backward_passes_per_step)
    optimizer.register_step_pre_hook(_before_step)
    return made


def _before_step(optimizer: Any, *_: object) -> None:
    if optimizer._automatic:
        optimizer.synchronize()


def _check_names(
    named: Iterable[tuple[str, torch.nn.Parameter]] | None, parameters: list[torch.nn.Parameter]
) -> None:
    if named is None:
        return
    pairs = list(named)
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("names in named_parameters must be unique")
    known = {id(parameter) for _, parameter in pairs}
    if any(id(parameter) not in known for parameter in parameters):
        raise ValueError("named_parameters does not name all parameters of the optimizer")
