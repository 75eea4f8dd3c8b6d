"""What the memory of a training consists of at its fullest moment. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from grus.estimation.allocator import Usage, rounded
from grus.estimation.lives import Kind, Trace


@dataclass(frozen=True, slots=True)
class Parts:
    """Bytes; together they are the estimate."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    workspace: int = 0
    """What libraries need beside the tensors, and what the allocator holds without using it."""
    context: int = 0
    """The GPU's own share for a process: its context and the code of its libraries."""

    @property
    def total(self) -> int:
        return (
            self.weights + self.gradients + self.optimizer + self.activations + self.workspace + self.context
        )


def alive(trace: Trace, moment: int) -> Mapping[Kind, int]:
    """Bytes of blocks in use by kind, right after the event of that number."""
    sums = dict.fromkeys(Kind, 0)
    for event in trace.events[: moment + 1]:
        size = rounded(abs(event.size))
        sums[trace.kinds[event.piece]] += size if event.size > 0 else -size
    return sums


def parts(trace: Trace, usage: Usage, workspace: int = 0, context: int = 0) -> Parts:
    """Taken apart when the most blocks were in use; `workspace` and `context` are what was learned."""
    sums = alive(trace, usage.moment)
    return Parts(
        sums[Kind.WEIGHTS],
        sums[Kind.GRADIENTS],
        sums[Kind.OPTIMIZER],
        sums[Kind.ACTIVATIONS],
        usage.reserved - sum(sums.values()) + workspace,
        context,
    )
