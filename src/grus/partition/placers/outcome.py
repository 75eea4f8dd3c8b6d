"""What a placer returns."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """For each operator its device, and an order in which the placer saw them run."""

    device_of: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The placer got stuck at this operator."""

    op: int
