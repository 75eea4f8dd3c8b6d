"""Memory lifetimes of a training: allocations and releases, in order. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from grus.estimation.roofline import OperatorCost


class MemoryCategory(StrEnum):
    """Purpose of a piece of memory."""

    WEIGHTS = "weights"
    """Parameters and buffers."""
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    """State of the optimizer, and what its step needs for a moment."""
    ACTIVATIONS = "activations"
    """Batches, what the forward pass keeps for the backward pass, and what both need for a moment."""


@dataclass(frozen=True, slots=True)
class Event:
    """Allocation (bytes above 0) or release (the same bytes
    below 0) of a piece; pieces are numbered by birth.
    """

    piece: int
    size: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The lives of all pieces over a few training steps; what is never given back lives to the end."""

    events: tuple[Event, ...]
    kinds: Mapping[int, MemoryCategory]
    operators: int = 0
    """Number of operators that were run."""
    works: tuple[OperatorCost, ...] = ()
    """Work of the operators of the last step, in order."""
    parameters: int = 0
    """Number of trainable parameters."""

    @property
    def peak(self) -> int:
        """Return the most bytes alive at once, by requested sizes: no rounding, no allocator."""
        now = most = 0
        for event in self.events:
            now += event.size
            most = max(most, now)
        return most
