"""Results of a placer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """Device of each operator, and an order in which the placer saw them run."""

    device_of: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The placer got stuck at this operator."""

    op: int
