"""Execution plans of a training: numbers of GPUs, memory of each, strategies; and out-of-memory shortages.

A job that leaves its size to Grus (`gpu: auto`) brings the plans that an estimate found. A plan's memory is
an upper bound; measured peaks and out-of-memory (OOM) ends take precedence over it.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """Execution plan: one way to hold a training."""

    gpus: int
    """One: a slice of a GPU, or all of it. Several: so many whole GPUs, with a worker on each."""
    memory: int
    """Bytes required on each GPU; 0 if they could not be estimated."""
    how: tuple[str, ...] = ()
    """Strategies that its workers have to switch on (`split`, `checkpoint`, …); empty for none."""
    speed: float = 1.0
    """Speed relative to the other plans; the fastest is preferred."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """An attempt that ended out of GPU memory (OOM): so many GPUs, this plan, had so much memory each."""

    gpus: int
    memory: int
    how: tuple[str, ...] = ()
    given: str = ""
    """Digest of the environment variables of the job: they may set its batch size."""


def merged(shortages: Iterable[Shortage]) -> tuple[Shortage, ...]:
    """Return the largest memory of each number of GPUs and plan: less of it is not enough either."""
    most: dict[tuple[int, tuple[str, ...], str], Shortage] = {}
    for one in shortages:
        key = (one.gpus, one.how, one.given)
        if key not in most or most[key].memory < one.memory:
            most[key] = one
    return tuple(most[key] for key in sorted(most))
