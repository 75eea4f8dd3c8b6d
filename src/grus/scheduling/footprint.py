"""What a job takes of a GPU that it has for itself, and what two of them would make of one GPU together.

Speeds are relative to having the GPU alone. Two jobs that take turns on one GPU do, together, the work of
one: a *gain* of 1. Sharing pays when both at once do more: the gain of a pair is the sum of its relative
speeds.
"""

from dataclasses import dataclass

PREDICTED = 1.2
"""A pair that was never measured must be predicted to gain that much to be tried."""
MEASURED = 1.1
"""A pair stays together only if it was measured to gain more than that: what one run of each shows is not
exact, and a guest that leaves has to start again."""
FILLED = 0.9
"""Part of a GPU's memory that the peaks of both may fill together: allocators leave gaps, and two CUDA
contexts take their own."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What is known of one job that allows sharing."""

    name: str
    """Jobs of one name do the same kind of work (its fingerprint)."""
    utilisation: float
    """Part of the time in which the GPU was busy while it had it alone, 0 to 1."""
    memory: int
    """Most bytes that it had on one GPU."""
    gains: tuple[tuple[str, float], ...] = ()
    """What was measured of pairs: the name of the other, and their gain."""

    def measured(self, other: "Footprint") -> float | None:
        """The gain that was measured of such a pair; None if there was none yet."""
        return dict(self.gains).get(other.name)


def predicted(one: Footprint, other: Footprint) -> float:
    """The gain that two jobs should have if the GPU is never idle while either has work for it: each runs at
    full speed as long as both fit into its time, and beyond that both slow down alike."""
    return 2.0 / max(1.0, one.utilisation + other.utilisation)


def worth_trying(one: Footprint, other: Footprint) -> float | None:
    """The gain that the pair is thought to have; None if that is too little to put them together."""
    known = one.measured(other)
    if known is not None:
        return known if known > MEASURED else None
    hoped = predicted(one, other)
    return hoped if hoped >= PREDICTED else None


def fits(one: Footprint, other: Footprint, memory: int) -> bool:
    """Whether a GPU with so many bytes has room for both."""
    return one.memory + other.memory <= FILLED * memory
