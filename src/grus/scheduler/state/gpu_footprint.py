"""Footprint of a job on a GPU of its own, and the predicted gain of two jobs that share one GPU.

Speeds are relative to having the GPU alone. Two jobs that take turns on one GPU do, together, the work of
one: a *gain* of 1. Sharing pays when both at once do more: the gain of a pair is the sum of its relative
speeds.
"""

from dataclasses import dataclass

PREDICTED = 1.2
"""Minimum predicted gain of an unmeasured pair to be tried."""
MEASURED = 1.1
"""Minimum measured gain of a pair to stay together: a measurement of one run of each is not exact, and a
secondary that leaves has to start again.
"""
FILLED = 0.9
"""Part of a GPU's memory that the peaks of both may fill together: allocators leave gaps, and two CUDA
contexts take their own."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Measurements of one job that allows sharing."""

    name: str
    """Name shared by jobs that do the same kind of work (its fingerprint)."""
    utilisation: float
    """Part of the time in which the GPU was busy while the job had it alone, 0 to 1."""
    memory: int
    """Peak memory in bytes on one GPU."""
    gains: tuple[tuple[str, float], ...] = ()
    """Measured gains of pairs: the name of the other job, and their gain."""

    def measured(self, other: "Footprint") -> float | None:
        """Return the measured gain of such a pair; None if there is none yet."""
        return dict(self.gains).get(other.name)


def predicted(one: Footprint, other: Footprint) -> float:
    """Return the gain that two jobs should have if the GPU is never idle while either has work for it: each
    runs at full speed as long as both fit into its time, and beyond that both slow down alike.
    """
    return 2.0 / max(1.0, one.utilisation + other.utilisation)


def worth_trying(one: Footprint, other: Footprint) -> float | None:
    """Return the expected gain of the pair; None if it is too little to put them together."""
    known = one.measured(other)
    if known is not None:
        return known if known > MEASURED else None
    hoped = predicted(one, other)
    return hoped if hoped >= PREDICTED else None


def fits(one: Footprint, other: Footprint, memory: int) -> bool:
    """Return whether a GPU with so many bytes has room for both."""
    return one.memory + other.memory <= FILLED * memory
