"""Effects of strategies on a training: the memory of each worker, its traffic, and its waiting time.

`checkpoint` and `bf16` are applied to the model before it is traced, by the code that `grus.train` runs too,
and so is the memory of the gradient exchange. For a training sharded over several workers, each part is
computed from the trace of the whole (`sharding`). Needs torch.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from grus.estimation.activation_checkpointing import lighten, shards
from grus.estimation.allocation_trace import MemoryCategory, Trace
from grus.estimation.calibration import Margin
from grus.estimation.ddp_memory import Exchange, exchange_of, payload
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.gpus import GpuKind
from grus.estimation.memory_estimator import Estimate, estimated
from grus.estimation.meta_tensors import built
from grus.estimation.sharding import ParameterBytes, of_one_worker
from grus.estimation.training_definition import Training
from grus.model.distributed_options import SHARDED, Strategy, holding

BUCKET = 25 << 20
"""Bytes of gradients that leave together; the last ones leave when there is nothing left to compute."""
BACKWARD = 2 / 3
"""Part of a step that the backward pass takes, during which gradients travel."""
HOST_LINK = 16e9
"""Bytes a second between a GPU and main memory: PCIe 3.0 with 16 lanes, by its data sheet."""
HOST_MEMORY = 20e9
"""Bytes a second that a host's update of the weights goes through: a rule of thumb."""
LIGHT = (Strategy.BF16, Strategy.CHECKPOINT)


@dataclass(frozen=True, slots=True)
class StrategyTrace:
    """A training under strategies, as each of its workers has it."""

    how: tuple[Strategy, ...]
    workers: int
    trace: Trace
    sent: int
    """Bytes that a worker sends to others in a step."""
    host: int = 0
    """Bytes that go to main memory and back in a step."""
    updated: int = 0
    """Bytes that the host reads and writes for the update."""

    def waiting(self, gpu: GpuKind) -> float:
        """Seconds of a step in which a worker computes nothing."""
        computing = sum(one.seconds(gpu) for one in self.trace.works)
        travelling = self.sent / gpu.link
        last = min(self.sent, 2 * BUCKET) / gpu.link
        return (
            max(last, travelling - BACKWARD * computing) + self.host / HOST_LINK + self.updated / HOST_MEMORY
        )


class Strategist:
    """Traces one training under many strategies; what several have in common is traced once."""

    def __init__(self, training: Training, gpu: GpuKind, size: int | None = None) -> None:
        self._training = training
        self.gpu = gpu
        self.size = training.size if size is None else size
        self._traces: dict[tuple[Strategy | None, ...], Trace] = {}
        self._model = built(training.model, FakeTensorMode(allow_non_fake_inputs=True))
        self._sizes = _sizes(self._model)

    @property
    def parameters(self) -> int:
        """Return the number of trainable parameters."""
        return sum(one.numel() for one in self._model.parameters() if one.requires_grad)

    def on(self, gpu: GpuKind) -> "Strategist":
        """The same training on another type of GPU; all real ones share their traces."""
        other = copy(self)
        other.gpu = gpu
        if gpu.virtual != self.gpu.virtual:
            other._traces = {}
        return other

    def held(self, how: Sequence[Strategy], workers: int = 1) -> StrategyTrace:
        """Return the training under these strategies.

        A virtual GPU's memory is the host's, so nothing can be offloaded.
        """
        kind = holding(how, workers)
        away = Strategy.OFFLOAD in how and not self.gpu.virtual
        whole = self._traced(how, exchange_of(how, workers))
        found = of_one_worker(whole, kind, self._sizes, workers, away=away)
        moved = payload(self._model.parameters()) // (workers if kind in SHARDED else 1) if away else 0
        state = sum(
            event.size
            for event in whole.events
            if event.size > 0 and whole.kinds[event.piece] is MemoryCategory.OPTIMIZER
        )
        touched = 2 * (state // (workers if kind in SHARDED else 1)) + 4 * moved if away else 0
        return StrategyTrace(tuple(how), workers, found, self._sent(how, workers), 2 * moved, touched)

    def _sent(self, how: Sequence[Strategy], workers: int) -> int:
        """A sum over all takes each byte round twice, gathering and cutting up once."""
        kind = holding(how, workers)
        gradients = payload(self._model.parameters(), exchange_of(how, workers))
        weights = self._sizes.weights
        cut_up = gradients * (2 if self.gpu.virtual else 1)  # gloo sums all of it and drops the rest
        travelled = {
            Strategy.DDP: 2 * gradients,
            Strategy.ZERO1: 2 * gradients + weights,
            Strategy.ZERO2: cut_up + weights,
            Strategy.FSDP: cut_up + 2 * weights - self._sizes.rest,
        }
        return travelled.get(kind, 0) * (workers - 1) // workers

    def _traced(self, how: Sequence[Strategy], exchange: Strategy | None) -> Trace:
        light = tuple(one for one in how if one in LIGHT)
        key = (*light, exchange)
        if key not in self._traces:
            summed = Exchange(exchange) if exchange is not None else None
            lighter = lightened(self._training, light)
            real = not self.gpu.virtual
            self._traces[key] = trace(lighter, self.size, on_a_gpu=real, exchange=summed)
        return self._traces[key]


def lightened(training: Training, how: Sequence[Strategy]) -> Training:
    """The training with its model made lighter."""

    def model() -> nn.Module:
        made = training.model()
        lighten(made, how)
        return made

    return replace(training, model=model) if how else training


def estimate(
    strategist: Strategist,
    how: Sequence[Strategy] = (),
    workers: int = 1,
    *,
    margin: Margin | None = None,
) -> Estimate:
    """Return the estimate under these strategies, on each of so many GPUs."""
    held = strategist.held(how, workers)
    return estimated(
        held.trace,
        strategist.gpu,
        strategist.size,
        how=tuple(one.value for one in how if one is not Strategy.PLAIN),
        workers=workers,
        traffic=held.sent,
        margin=margin,
        waiting=held.waiting(strategist.gpu) if held.sent or held.host else 0.0,
    )


def _sizes(model: nn.Module) -> ParameterBytes:
    seen: set[int] = set()
    blocks = [_new_bytes(block.parameters(), seen) for block in shards(model)]
    return ParameterBytes(
        tuple(size for size in blocks if size),
        _new_bytes(model.parameters(), seen),
        _new_bytes(model.buffers(), seen),
    )


def _new_bytes(tensors: Iterable[Tensor], seen: set[int]) -> int:
    """Bytes of those that were not counted before."""
    new = [one for one in tensors if id(one) not in seen]
    seen |= {id(one) for one in new}
    return sum(one.numel() * one.element_size() for one in new)
