"""Ways to hold a training: how many GPUs with how much memory each, by which strategies; what fell short.

A job that leaves its size to Grus (`gpu: auto`) brings the ways that an estimate found. A way's memory is an
upper bound; what really happened, peaks and ends for want of memory, counts before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """One way to hold a training."""

    gpus: int
    """One: a slice of a GPU, or all of it. Several: so many whole GPUs, with a worker on each."""
    memory: int
    """Bytes that suffice on each GPU; 0 where nobody could tell."""
    how: tuple[str, ...] = ()
    """Strategies that its workers have to switch on (`split`, `checkpoint`, …); empty for none."""
    speed: float = 1.0
    """Relative to the other ways; the fastest is preferred."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """An attempt that ended for want of GPU memory: so many GPUs, this way, had so much each."""

    gpus: int
    memory: int
    how: tuple[str, ...] = ()
    given: str = ""
    """Digest of the environment variables that the job was given: they may say how large its batch is."""


def merged(shortages: Iterable[Shortage]) -> tuple[Shortage, ...]:
    """The largest memory of each number of GPUs and way: less of it falls short as well."""
    most: dict[tuple[int, tuple[str, ...], str], Shortage] = {}
    for one in shortages:
        key = (one.gpus, one.how, one.given)
        if key not in most or most[key].memory < one.memory:
            most[key] = one
    return tuple(most[key] for key in sorted(most))
