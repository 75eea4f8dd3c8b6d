"""The memory that a training takes and gives back, in order. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from grus.estimation.roofline import Work


class Kind(StrEnum):
    """What a piece of memory is for."""

    WEIGHTS = "weights"
    """Parameters and buffers."""
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    """State of the optimizer, and what its step needs for a moment."""
    ACTIVATIONS = "activations"
    """Batches, what the forward pass keeps for the backward pass, and what both need for a moment."""


@dataclass(frozen=True, slots=True)
class Event:
    """A piece is born (bytes above 0) or dies (the same bytes below 0). Pieces are numbered by birth."""

    piece: int
    size: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The lives of all pieces over a few training steps; what is never given back lives to the end."""

    events: tuple[Event, ...]
    kinds: Mapping[int, Kind]
    operators: int = 0
    """How many operators were run."""
    works: tuple[Work, ...] = ()
    """What the operators of the last step do, in order."""
    parameters: int = 0
    """How many numbers are learned."""

    @property
    def peak(self) -> int:
        """The most bytes alive at once, as asked for: no rounding, no allocator."""
        now = most = 0
        for event in self.events:
            now += event.size
            most = max(most, now)
        return most
