"""Data plan: which samples each step uses; pure arithmetic, equal on every worker for any number of workers.

An epoch is a seeded permutation of the dataset. A step takes the next `batch` positions of it and is cut into
micro-batches of a fixed size; micro-batch i goes to rank i % world. A run's progress (`Progress`) names no
rank and no world, so that any set of workers can continue from it: every sample is used exactly once per
epoch. A step never crosses an epoch: the last one of an epoch may be smaller.

The plan does not depend on the version of NumPy or on the machine: only the raw streams of bit generators are
used, which NumPy guarantees to keep; a run resumed elsewhere finds the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run: the epoch, the number of its samples used so far, and the steps since the start."""

    epoch: int = 0
    cursor: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class Micro:
    """One micro-batch: the positions [start, stop) of an epoch's permutation."""

    step: int
    epoch: int
    index: int
    """Index within its step."""
    start: int
    stop: int
    of: int
    """Samples of the whole step."""
    idle: bool = False
    """Computed only because all must compute equally often; it counts for nothing."""

    @property
    def weight(self) -> float:
        """Its part of the step: gradients of micro-batch means, so weighted, sum to the step's mean."""
        return 0.0 if self.idle else (self.stop - self.start) / self.of


def micros(at: Progress, samples: int, batch: int, size: int) -> tuple[Micro, ...]:
    """The step at `at`, whole: `batch` samples, or what the epoch has left, in micro-batches of `size`."""
    if size < 1:
        raise ValueError(f"a micro-batch has at least one sample, not {size}")
    stop = _end(at, samples, batch)
    cuts = [*range(at.cursor, stop, size), stop]
    return tuple(
        Micro(at.step, at.epoch, index, cuts[index], cuts[index + 1], stop - at.cursor)
        for index in range(len(cuts) - 1)
    )


def share(step: Sequence[Micro], rank: int, world: int) -> tuple[Micro, ...]:
    """Return one rank's part of a step; empty when there are more ranks than micro-batches."""
    if not 0 <= rank < world:
        raise ValueError(f"there is no rank {rank} among {world}")
    return tuple(step[rank::world])


def even_share(step: Sequence[Micro], rank: int, world: int) -> tuple[Micro, ...]:
    """The same, filled up to what the first rank does with micro-batches that count for nothing."""
    mine = share(step, rank, world)
    missing = -(-len(step) // world) - len(mine)
    return mine + (replace(step[rank % len(step)], idle=True),) * missing


def after(at: Progress, samples: int, batch: int) -> Progress:
    """Return the progress of the run after the step at `at`."""
    stop = _end(at, samples, batch)
    if stop == samples:
        return Progress(at.epoch + 1, 0, at.step + 1)
    return Progress(at.epoch, stop, at.step + 1)


def steps_left(at: Progress, samples: int, batch: int, epochs: int) -> int:
    """Steps until `epochs` epochs are done, if the batch stays as it is."""
    if finished(at, epochs):
        return 0
    rest = samples - _end(at, samples, batch)
    return 1 + -(-rest // batch) + (epochs - at.epoch - 1) * -(-samples // batch)


def finished(at: Progress, epochs: int) -> bool:
    return at.epoch >= epochs


def order(seed: int, epoch: int, samples: int) -> npt.NDArray[np.int64]:
    """The epoch's permutation: position → sample. Costs a sort; keep it for the epoch."""
    # Sorting random keys, not `Generator.permutation`: the latter may change with a version of NumPy.
    keys = np.random.PCG64(np.random.SeedSequence((seed & _WORD, epoch))).random_raw(samples)
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def seed_of(seed: int, step: int, index: int) -> int:
    """The seed of one micro-batch's chance (augmentation, dropout), 63 bits; neighbors share nothing."""
    return _mix(_mix(_mix(seed) + step) + index) >> 1


def _end(at: Progress, samples: int, batch: int) -> int:
    """The position after the last one of the step at `at`."""
    if batch < 1:
        raise ValueError(f"a step has at least one sample, not {batch}")
    if not 0 <= at.cursor < samples:
        raise ValueError(f"an epoch of {samples} samples has no position {at.cursor}")
    return min(at.cursor + batch, samples)


def _mix(number: int) -> int:
    """SplitMix64 (Steele, Lea and Flood, 2014): each bit of the result depends on each of the number."""
    mixed = (number + 0x9E3779B97F4A7C15) & _WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
    return mixed ^ (mixed >> 31)
