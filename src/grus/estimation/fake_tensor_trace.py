"""Tracing: runs a training on tensors without data and records the birth and death of each piece of memory.

Two steps are run: the optimizer's state is created in the first, so only the second shows the steady state.
Numbers that the training reads (`loss.item()`) are made up (`made_up`), so a training whose path depends on
them is traced along one path.
"""

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from grus.estimation.allocation_trace import Event, MemoryCategory, Trace
from grus.estimation.ddp_memory import Exchange
from grus.estimation.fake_scalars import MadeUp
from grus.estimation.meta_tensors import built
from grus.estimation.operator_flops import flops, tensors_in, work
from grus.estimation.roofline import OperatorCost
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput, Mistake

STEPS = 2


def trace(
    training: Training,
    size: int | None = None,
    steps: int = STEPS,
    *,
    on_a_gpu: bool = True,
    exchange: Exchange | None = None,
) -> Trace:
    """The lives of all memory over the first steps of the training, with batches of `size` samples.

    `exchange` is what is done to the gradients before the optimizer uses them.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    model = built(training.model, fake)
    lives = _Lives()
    with fake:
        optimizer = training.optimizer(model.parameters())
        if on_a_gpu:
            _as_on_a_gpu(optimizer)
        for tensor in (*model.parameters(), *model.buffers()):
            lives.note(tensor, MemoryCategory.WEIGHTS)
        with lives:
            sizes = [training.size if size is None else size] * steps
            _run(training, model, optimizer, lives, sizes, exchange)
    learned = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return Trace(tuple(lives.events), dict(lives.kinds), lives.operators, tuple(lives.works), learned)


def _run(
    training: Training,
    model: nn.Module,
    optimizer: Optimizer,
    lives: "_Lives",
    sizes: Iterable[int],
    exchange: Exchange | None,
) -> None:
    """Run the usual training loop: a batch is alive until the next one exists."""
    batch: object = None
    for size in sizes:
        lives.works.clear()
        lives.made_up.new_step()
        with lives.phase(None):  # a batch is made on the CPU
            made = training.batch(size)
        batch = tree_map(lives.moved, made)
        optimizer.zero_grad(set_to_none=True)
        _scalar(training.loss(model, batch)).backward()
        lives.label((p.grad for p in model.parameters()), MemoryCategory.GRADIENTS)
        if exchange is not None:
            with lives.phase(MemoryCategory.GRADIENTS):
                exchange(model.parameters())
        with lives.phase(MemoryCategory.OPTIMIZER):
            _step(optimizer, partial(training.loss, model, batch))
        lives.label(tree_iter(list(optimizer.state.values())), MemoryCategory.OPTIMIZER)
    del batch


def _step(optimizer: Optimizer, loss: Callable[[], Tensor]) -> None:
    """One that looks at the loss again (LBFGS) is given it."""

    def again() -> float:
        optimizer.zero_grad(set_to_none=True)
        found = loss()
        found.backward()
        return found.item()

    wanted = inspect.signature(optimizer.step).parameters.get("closure")
    if wanted is not None and wanted.default is inspect.Parameter.empty:
        optimizer.step(again)
    else:
        optimizer.step()


def _scalar(loss: Any) -> Tensor:
    """Return the loss, if a backward pass can start from it."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise BadInput([Mistake("loss", "must return one number as a tensor, such as a mean", found)])
    if not loss.requires_grad:
        raise BadInput([Mistake("loss", "must depend on the model's parameters; is something detached?")])
    return loss


def _as_on_a_gpu(optimizer: Optimizer) -> None:
    """Use the optimizers' default on a GPU: all parameters at once, which needs more memory."""
    for group in optimizer.param_groups:
        if group.get("foreach", True) is None and not group.get("fused"):
            group["foreach"] = True


class _Lives(TorchDispatchMode):
    """Notes the storage of each operator's results: its birth when first seen, its death when collected."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch gives it no types
        self.events: list[Event] = []
        self.kinds: dict[int, MemoryCategory] = {}
        self.operators = 0
        self.works: list[OperatorCost] = []
        self.made_up = MadeUp()
        self._current: MemoryCategory | None = MemoryCategory.ACTIVATIONS
        self._alive: dict[int, tuple[int, weakref.ref[Any]]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.operators += 1
        result = self.made_up.answer(func, args, kwargs or {})
        if self._current is not None:
            written = tensors_in(result)
            for tensor in written:
                self.note(tensor, self._current)
            count = flops(func, args, kwargs or {}, result)
            self.works.append(work(func, tensors_in((args, kwargs)), written, count))
        return result

    def note(self, tensor: Tensor, kind: MemoryCategory) -> None:
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._alive:
            return
        piece, size = len(self.kinds), storage.nbytes()
        self.kinds[piece] = kind
        self.events.append(Event(piece, size))

        def died(_: object) -> None:
            self.events.append(Event(piece, -size))
            del self._alive[address]

        self._alive[address] = (piece, weakref.ref(storage, died))

    def label(self, tensors: Iterable[object], kind: MemoryCategory) -> None:
        """Set the purpose of these tensors, from their creation on."""
        for tensor in tensors_in(list(tensors)):
            if known := self._alive.get(tensor.untyped_storage()._cdata):
                self.kinds[known[0]] = kind

    @contextmanager
    def phase(self, kind: MemoryCategory | None) -> Iterator[None]:
        """Mark tensors created inside the block as this kind; None: they are not on the GPU."""
        before, self._current = self._current, kind
        try:
            yield
        finally:
            self._current = before

    def moved(self, value: object) -> object:
        """Record a batch's tensor moved to the GPU, without data."""
        if not isinstance(value, Tensor):
            return value
        moved = torch.empty_like(value)
        self.note(moved, MemoryCategory.ACTIVATIONS)
        return moved
