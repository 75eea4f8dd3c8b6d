"""Memory of a training at its peak, divided by purpose. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from grus.estimation.allocation_trace import MemoryCategory, Trace
from grus.estimation.allocator import Usage, rounded


@dataclass(frozen=True, slots=True)
class Parts:
    """Bytes; together they are the estimate."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    workspace: int = 0
    """Bytes that libraries need beside the tensors, and that the allocator reserves without using them."""
    context: int = 0
    """The GPU's own share for a process: its context and the code of its libraries."""

    @property
    def total(self) -> int:
        return (
            self.weights + self.gradients + self.optimizer + self.activations + self.workspace + self.context
        )


def alive(trace: Trace, moment: int) -> Mapping[MemoryCategory, int]:
    """Bytes of blocks in use by kind, right after the event of that number."""
    sums = dict.fromkeys(MemoryCategory, 0)
    for event in trace.events[: moment + 1]:
        size = rounded(abs(event.size))
        sums[trace.kinds[event.piece]] += size if event.size > 0 else -size
    return sums


def parts(trace: Trace, usage: Usage, workspace: int = 0, context: int = 0) -> Parts:
    """Divide the peak memory by purpose; `workspace` and `context` are learned values."""
    sums = alive(trace, usage.moment)
    return Parts(
        sums[MemoryCategory.WEIGHTS],
        sums[MemoryCategory.GRADIENTS],
        sums[MemoryCategory.OPTIMIZER],
        sums[MemoryCategory.ACTIVATIONS],
        usage.reserved - sum(sums.values()) + workspace,
        context,
    )
