"""Estimates of a training on a type of GPU, and the biggest batch that fits. Pure: needs no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grus.estimation.allocation_trace import Trace
from grus.estimation.allocator import Usage, held, replay
from grus.estimation.calibration import Margin, usual, usual_of_a_process
from grus.estimation.gpus import GpuKind
from grus.estimation.memory_breakdown import Parts, parts

MOST = 1 << 20
"""Maximum batch size of the search, in samples."""
NEAR = 50
"""The biggest batch is known to one in so many."""
FASTER = 8
"""The largest step from a batch that fits to the next one tried."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes of one GPU, which are the same for each of the workers."""

    gpu: GpuKind
    size: int
    """Samples of a batch, on each worker."""
    how: tuple[str, ...]
    """Strategies in their words; none is plain."""
    workers: int
    estimate: int
    """The most that it takes, context included; the sum of the parts."""
    upper: int
    """Upper bound on its memory; admission uses this value."""
    parts: Parts
    seconds: float
    """Seconds of one step, by the data sheet; includes the time that workers wait for each other."""
    traffic: int
    """Bytes that each worker sends in a step."""
    fits: bool
    """True if the upper bound fits."""

    @property
    def perhaps(self) -> bool:
        """True if the training fits by the estimate, though not with certainty."""
        return self.fits or self.estimate <= self.gpu.memory


def estimated(
    trace: Trace,
    gpu: GpuKind,
    size: int,
    *,
    how: tuple[str, ...] = (),
    workers: int = 1,
    traffic: int = 0,
    margin: Margin | None = None,
    waiting: float = 0.0,
) -> Estimate:
    """Return the estimate from a trace of one worker.

    `margin` was learned; `waiting` is the seconds of exchange in a step.
    """
    usage = used(trace, gpu)
    known = margin or (usual_of_a_process if gpu.virtual else usual)(usage.reserved)
    shown = parts(trace, usage, workspace=known.typical, context=gpu.context)
    upper = usage.reserved + max(known.typical, known.upper) + gpu.context
    return Estimate(
        gpu,
        size,
        how,
        workers,
        shown.total,
        upper,
        shown,
        sum(work.seconds(gpu) for work in trace.works) + waiting,
        traffic,
        usage.fits and upper <= gpu.memory,
    )


def used(trace: Trace, gpu: GpuKind) -> Usage:
    """Return the memory of the tensors: through a GPU's allocator, or their own sizes on a virtual GPU."""
    return held(trace.events) if gpu.virtual else replay(trace.events, gpu.room)


def of_mapping(told: Mapping[str, Any]) -> Estimate:
    """The estimate that came as JSON."""
    return Estimate(
        **{
            **told,
            "gpu": GpuKind(**told["gpu"]),
            "parts": Parts(**told["parts"]),
            "how": tuple(told["how"]),
        }
    )


# ------------------------------------------------------------------------------------------ the biggest batch


@dataclass(frozen=True, slots=True)
class Biggest:
    """Result of a search for the biggest batch."""

    size: int
    """Looked at, and fits; 0: not even one sample does."""
    too_big: int | None
    """The smallest that was looked at and does not fit; None: none was found."""


def biggest(upper: Callable[[int], int | None], memory: int, start: int, most: int = MOST) -> Biggest:
    """Return the largest batch whose upper bound is within the memory, to one in NEAR.

    `upper` returns the bytes of a batch size, None for an impossible one. Memory grows nearly linearly with
    the batch, so each size tried is where the line through the known sizes meets the memory.
    """
    known: dict[int, int] = {}
    fits, too_big, size = 0, None, min(max(1, start), most)
    while True:
        found = upper(size)
        if found is not None:
            known[size] = found
        if found is not None and found <= memory:
            fits = max(fits, size)
        else:
            too_big = size if too_big is None else min(too_big, size)
        if fits >= most or (too_big is not None and too_big - fits <= max(1, fits // NEAR)):
            return Biggest(fits, too_big)
        size = _next(known, memory, fits, too_big, most)


def _next(known: Mapping[int, int], memory: int, fits: int, too_big: int | None, most: int) -> int:
    """The size to try next: within what is open, and never closer to its ends than the answer needs."""
    step = max(1, fits // NEAR)
    aim = _crossing(known, memory)
    if too_big is None:
        aim = 2 * fits if aim is None else aim
        return min(most, max(fits + step, min(aim, FASTER * fits)))
    middle = (fits + too_big) // 2
    if aim is None or not fits < aim < too_big:
        # The line gives one of the ends as the answer: try beside it, or bisect the rest.
        aim = fits + step if aim is not None and aim <= fits and fits in known else middle
    return min(max(aim, fits + 1), too_big - 1)


def _crossing(known: Mapping[int, int], memory: int) -> int | None:
    """Return the size at which the line through the two sizes nearest to the memory meets it."""
    near = sorted(known, key=lambda size: abs(known[size] - memory))[:2]
    if len(near) < 2:
        return None
    one, other = sorted(near)
    slope = (known[other] - known[one]) / (other - one)
    return int(one + (memory - known[one]) / slope) if slope > 0 else None
