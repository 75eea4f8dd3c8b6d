"""The allocator that PyTorch puts between a training and its GPU, simulated.

It takes segments from the GPU, cuts them into blocks, and keeps what is given back for later. What the GPU
shows as used is therefore the segments, not the tensors. The sizes below are those of PyTorch's
`CUDACachingAllocator` with its settings left alone. Pure: bytes in, bytes out.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from grus.estimation.allocation_trace import Event

MIB = 1 << 20
UNIT = 512
"""Every block is a multiple of this."""
SMALL = MIB
"""Up to here, blocks are cut from small segments."""
SMALL_SEGMENT = 2 * MIB
MIDDLE = 10 * MIB
"""Below this, blocks are cut from segments of one size; from here on they get a segment to measure."""
MIDDLE_SEGMENT = 20 * MIB
STEP = 2 * MIB
"""Segments to measure are a multiple of this."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Result of a replay."""

    reserved: int
    """The most bytes of segments at once: what the GPU shows."""
    allocated: int
    """The most bytes of blocks at once."""
    moment: int
    """The event at which `allocated` was reached."""
    fits: bool
    """True if the capacity was enough; if not, the replay continued as if it were larger."""


@dataclass(slots=True, eq=False)
class _Block:
    """A stretch of a segment; its neighbors are in the same segment."""

    pool: "_BlockPool"
    address: int
    size: int
    before: "_Block | None" = None
    after: "_Block | None" = None
    free: bool = True

    @property
    def whole(self) -> bool:
        """Return whether it is a segment that was freed entirely."""
        return self.before is None and self.after is None


@dataclass(slots=True)
class _BlockPool:
    """Free blocks of one class of sizes, the smallest first and the lowest address among equals."""

    least: int
    """A rest of fewer bytes is not cut off."""
    order: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[int, _Block] = field(default_factory=dict)

    def add(self, block: _Block) -> None:
        block.free = True
        self.blocks[block.address] = block
        insort(self.order, (block.size, block.address))

    def remove(self, block: _Block) -> None:
        block.free = False
        del self.blocks[block.address]
        del self.order[bisect_left(self.order, (block.size, block.address))]

    def best(self, size: int) -> _Block | None:
        """The smallest free block that is large enough, taken out."""
        at = bisect_left(self.order, (size, 0))
        if at == len(self.order):
            return None
        block = self.blocks[self.order[at][1]]
        self.remove(block)
        return block

    def release(self) -> int:
        """Return whole segments to the GPU; return their bytes."""
        given = [block for block in self.blocks.values() if block.whole]
        for block in given:
            self.remove(block)
        return sum(block.size for block in given)


def rounded(size: int) -> int:
    """Bytes of the block for a piece of so many bytes; an empty piece has none."""
    return -(-size // UNIT) * UNIT


def segment(size: int) -> int:
    """Bytes of the segment that is taken when no free block holds `size` (rounded)."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return MIDDLE_SEGMENT if size < MIDDLE else -(-size // STEP) * STEP


class Allocator:
    """One GPU's allocator. `capacity` is what the GPU has for segments; None is without end."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.reserved = 0
        self.allocated = 0
        self.fits = True
        self._small = _BlockPool(least=UNIT)
        self._large = _BlockPool(least=SMALL + 1)
        self._used: dict[int, _Block] = {}
        self._next_address = 0

    def take(self, piece: int, size: int) -> None:
        """A block for the piece."""
        size = rounded(size)
        if not size:
            return
        pool = self._small if size <= SMALL else self._large
        block = pool.best(size) or self._segment(pool, size)
        if block.size - size >= pool.least:
            pool.add(_cut(block, size))
        self._used[piece] = block
        self.allocated += block.size

    def give_back(self, piece: int) -> None:
        """The piece's block is free again and merges with free neighbors."""
        block = self._used.pop(piece, None)
        if block is None:  # an empty piece
            return
        self.allocated -= block.size
        if block.after is not None and block.after.free:
            block.pool.remove(block.after)
            _merge(block, block.after)
        if block.before is not None and block.before.free:
            block.pool.remove(block.before)
            _merge(block.before, block)
            block = block.before
        block.pool.add(block)

    def blocks(self) -> Iterable[tuple[int, int]]:
        """Return the begin and end addresses of the blocks in use."""
        return sorted((block.address, block.address + block.size) for block in self._used.values())

    def _segment(self, pool: _BlockPool, size: int) -> _Block:
        """A new segment; when there is no room, what is kept for later goes back to the GPU first."""
        size = segment(size)
        if self.capacity is not None and self.reserved + size > self.capacity:
            self.reserved -= self._small.release() + self._large.release()
            self.fits = self.fits and self.reserved + size <= self.capacity
        self.reserved += size
        block = _Block(pool, self._next_address, size, free=False)
        self._next_address += size
        return block


def _cut(block: _Block, size: int) -> _Block:
    """Shortens the block to `size`; returns the rest."""
    rest = _Block(block.pool, block.address + size, block.size - size, block, block.after)
    if block.after is not None:
        block.after.before = rest
    block.after, block.size = rest, size
    return rest


def _merge(block: _Block, after: _Block) -> None:
    """Extend the block by its neighbor."""
    block.size += after.size
    block.after = after.after
    if after.after is not None:
        after.after.before = block


def replay(events: Iterable[Event], capacity: int | None = None) -> Usage:
    """Runs the lives through an allocator."""
    allocator = Allocator(capacity)
    reserved = allocated = moment = 0
    for number, event in enumerate(events):
        if event.size < 0:
            allocator.give_back(event.piece)
            continue
        allocator.take(event.piece, event.size)
        reserved = max(reserved, allocator.reserved)
        if allocator.allocated > allocated:
            allocated, moment = allocator.allocated, number
    return Usage(reserved, allocated, moment, allocator.fits)


def held(events: Iterable[Event]) -> Usage:
    """The lives as they are, in blocks but without an allocator that keeps anything; all of it fits."""
    now = most = moment = 0
    for number, event in enumerate(events):
        now += rounded(event.size) if event.size > 0 else -rounded(-event.size)
        if now > most:
            most, moment = now, number
    return Usage(most, most, moment, fits=True)
