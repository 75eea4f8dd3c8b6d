"""A trace of a whole training turned into that of one worker of several which hold it in parts. Pure.

Weights, gradients and optimizer state that are cut up take their part of the bytes; what is gathered for a
moment comes on top. Activations stay: each worker computes its own batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from grus.estimation.allocation_trace import Event, MemoryCategory, Trace
from grus.model.distributed_options import Strategy

AHEAD = 2
"""Number of blocks whose weights exist at once: the one being computed, and the next one, prefetched."""
LEAVING = 2
"""Times that a block's gradients are there while they are summed: as computed, and in a row to be sent."""


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes of a model's parameters."""

    blocks: tuple[int, ...]
    """Bytes of each part that is gathered by itself."""
    rest: int
    """Bytes of the parameters outside of all blocks, which stay gathered during a step."""
    buffers: int = 0
    """Bytes of the buffers, which every worker has."""

    @property
    def weights(self) -> int:
        return sum(self.blocks) + self.rest

    @property
    def block(self) -> int:
        return max(self.blocks, default=0)


def of_one_worker(
    trace: Trace, how: Strategy, sizes: ParameterBytes, workers: int, *, away: bool = False
) -> Trace:
    """The trace of each of the workers that hold the training so. `away`: their parts are in main memory."""
    cut = {
        Strategy.ZERO1: {MemoryCategory.OPTIMIZER},
        Strategy.ZERO2: {MemoryCategory.OPTIMIZER, MemoryCategory.GRADIENTS, MemoryCategory.WEIGHTS},
        Strategy.FSDP: {MemoryCategory.OPTIMIZER, MemoryCategory.GRADIENTS, MemoryCategory.WEIGHTS},
    }.get(how, set())
    share = dict.fromkeys(cut, 0 if away else workers)
    if away and not cut:
        share = {MemoryCategory.OPTIMIZER: 0}
    return _with(_scaled(trace, share), _gathered(how, sizes, workers))


def _gathered(how: Strategy, sizes: ParameterBytes, workers: int) -> Mapping[MemoryCategory, int]:
    """Return the largest temporary bytes, in addition to the shards."""
    buffers = sizes.buffers - sizes.buffers // workers  # they were divided with the weights
    leaving = LEAVING * max(sizes.block, sizes.rest)
    if how is Strategy.ZERO2:
        return {MemoryCategory.WEIGHTS: sizes.weights + buffers, MemoryCategory.GRADIENTS: leaving}
    if how is Strategy.FSDP:
        ahead = min(AHEAD, len(sizes.blocks)) * sizes.block
        return {MemoryCategory.WEIGHTS: sizes.rest + ahead + buffers, MemoryCategory.GRADIENTS: leaving}
    return {}


def _scaled(trace: Trace, share: Mapping[MemoryCategory, int]) -> Trace:
    """Each piece of these kinds divided by a number; 0: it is not there at all."""
    events = []
    for event in trace.events:
        by = share.get(trace.kinds[event.piece], 1)
        if by:
            size = -(-abs(event.size) // by)
            events.append(Event(event.piece, size if event.size > 0 else -size))
    return replace(trace, events=tuple(events))


def _with(trace: Trace, more: Mapping[MemoryCategory, int]) -> Trace:
    """The same with pieces that are there all the time."""
    first = max(trace.kinds, default=-1) + 1
    pieces = [(first + number, kind, size) for number, (kind, size) in enumerate(more.items()) if size]
    return replace(
        trace,
        events=(*(Event(piece, size) for piece, _, size in pieces), *trace.events),
        kinds={**trace.kinds, **{piece: kind for piece, kind, _ in pieces}},
    )
