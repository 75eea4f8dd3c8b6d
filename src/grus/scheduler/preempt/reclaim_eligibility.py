"""Preemption rights: the requests that may take GPUs, and the jobs from which they may take them.

Between queues by fairness: a request inside its quota takes from any queue over quota; a queue below its fair
share takes from those above theirs, as long as it does not end up better off than they. In a tree this is
compared at the level at which the two branches part. Growth has fewer rights than a waiting minimum.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from grus.scheduler.placement.gang_placement import Place
from grus.scheduler.queues.gpu_type_quota import covers
from grus.scheduler.queues.queue_usage_tree import UNLIMITED, QueueNode
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.node_capacity_index import SOON, Pool
from grus.scheduler.state.request_shapes import Shape

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle

MINIMUM_RUN = 60.0
"""Seconds for which a job's minimum is protected against requests that are not inside quota."""
PATIENCE = 600.0
"""Seconds after which a minimum that crosses its queue's fair share may take surplus above quota."""


class Piece(NamedTuple):
    """Unit that can be taken: GPUs of an elastic job above its minimum, or all that a job has."""

    entry: Entry
    places: tuple[Place, ...]
    surplus: bool

    @property
    def amount(self) -> int:
        return sum(place.held for place in self.places)


class CapacityRequest(NamedTuple):
    """Request for room: a waiting minimum, or a running job that would grow."""

    entry: Entry
    shape: Shape
    counts: list[int]
    """Replicas of each part that it requests."""
    amount: int
    minimum: bool
    """True if a waiting job's minimum is at stake; growth has fewer rights."""
    entitled: bool = False
    """True if it is inside its queue's quota, if need be at the cost of that queue's own lower priorities."""
    owed: bool = True
    """True if GPUs inside quota may be claimed as such; growth may only when no minimum waits."""
    most: int = UNLIMITED
    """Upper bound of its amount at its place: a memory slice counts for more on a smaller device."""

    @property
    def queue(self) -> QueueNode:
        return self.entry.queue

    def tries(self, pool: Pool) -> "tuple[CapacityRequest, ...]":
        """Return the request as preferred; a memory slice also on the largest devices first, where it counts
        for least.
        """
        if any(part.memory_slice for part in self.shape.parts):
            return (self, self._on_largest(pool))
        return (self,)

    def _on_largest(self, pool: Pool) -> "CapacityRequest":
        parts = tuple(
            replace(part, kinds=tuple(sorted(part.kinds, key=lambda kind: (-pool.kinds[kind][1], kind))))
            for part in self.shape.parts
        )
        return self._replace(shape=replace(self.shape, parts=parts))

    def inside_types(self, branch: QueueNode, pool: Pool) -> "CapacityRequest":
        """Return the same limited to the types of which the branch has quota left, if its quota is by
        type.
        """
        if branch.by_type is None:
            return self
        kinds = kinds_inside(branch, self.shape, self.amount, pool)
        return self._replace(shape=self.shape.narrowed([kinds] * len(self.shape.parts)))


def parting(one: QueueNode, other: QueueNode) -> int:
    """Return the level at which the paths of two queues part: the first at which they differ."""
    level = 1
    while one.path[level] is other.path[level]:
        level += 1
    return level


def inside(branch: QueueNode, asking: CapacityRequest, pool: Pool) -> bool:
    """Return whether the branch would hold at most its quota together with the request."""
    if branch.held[SOON] + asking.amount > branch.quota:
        return False
    return branch.by_type is None or bool(kinds_inside(branch, asking.shape, asking.amount, pool))


def kinds_inside(branch: QueueNode, shape: Shape, amount: int, pool: Pool) -> set[int]:
    """Return the kinds of device of which the branch may hold that much more inside its quota by type."""
    assert branch.by_type is not None
    found = set()
    for kind in shape.kinds:
        name = pool.kinds[kind][0]
        key = covers(branch.by_type, name)
        if branch.held_by_type.get(key, 0) + amount <= branch.typed_quota(key):
            found.add(kind)
    return found


def may_reclaim(cycle: "Cycle", asking: CapacityRequest, piece: Piece) -> bool:
    """Return whether the requesting queue has a right to this piece of another queue."""
    queue, victim = asking.queue, piece.entry.queue
    level = parting(queue, victim)
    if not all(node.over() for node in victim.path[level:]):
        return False
    mine, theirs = queue.path[level], victim.path[level]
    if asking.owed and inside(mine, asking, cycle.pool):
        return True
    if piece.surplus and asking.minimum and cycle.impatient(asking.entry):
        return True
    return _fair(asking, piece, mine, theirs) and (piece.surplus or not cycle.guarded(piece.entry))


def _fair(asking: CapacityRequest, piece: Piece, mine: QueueNode, theirs: QueueNode) -> bool:
    """Check fairness: the taker is below its share, the victim above its own rounded up, and afterwards the
    taker is not better off than the victim.
    """
    if not asking.minimum and not piece.surplus:
        return False
    if mine.held[SOON] >= mine.share or mine.exact <= 0:
        return False
    if theirs.held[SOON] <= theirs.share_rounded_up():
        return False
    after = (theirs.held[SOON] - piece.amount) * mine.exact
    return (mine.held[SOON] + asking.amount) * theirs.exact <= after + 1.0


def may_take(cycle: "Cycle", queue: QueueNode, amount: int) -> bool:
    """Check cheaply at every level whether that much more would be inside quota, or the branch is below its
    share and would still have less than the richest.
    """
    _, ratio, _ = cycle.over_leaves()
    for node in queue.path[1:]:
        held = node.held[SOON]
        if held + amount <= node.quota or (held < node.share and held + amount <= ratio * node.exact):
            return True
    return False


def victims_of(cycle: "Cycle", asking: CapacityRequest) -> Iterator[tuple[QueueNode, int]]:
    """Yield the queues that the requesting one might take from, and at most how much by the rules between
    them.
    """
    queue = asking.queue
    leaves, _, surplus = cycle.over_leaves()
    impatient = asking.minimum and surplus and cycle.impatient(asking.entry)
    if not impatient and not may_take(cycle, queue, asking.amount):
        return
    for leaf in leaves:
        if leaf is queue:
            continue
        level = parting(queue, leaf)
        mine, theirs = queue.path[level], leaf.path[level]
        if asking.owed and inside(mine, asking, cycle.pool):
            yield leaf, leaf.held[SOON]
            continue
        fair = fair_bound(mine, theirs, asking.amount)
        if impatient:
            fair = max(fair, leaf.surplus)
        if fair > 0:
            yield leaf, fair


def fair_bound(mine: QueueNode, theirs: QueueNode, amount: int) -> int:
    """Return how much a branch above its fair share can give before the taker would be better off."""
    if mine.held[SOON] >= mine.share or mine.exact <= 0 or theirs.held[SOON] <= theirs.exact:
        return 0
    return int(theirs.held[SOON] - (mine.held[SOON] + amount) * theirs.exact / mine.exact) + 1


def has_own(asking: CapacityRequest) -> bool:
    """Return whether the queue itself has surplus or lower priorities to give."""
    queue, priority = asking.queue, asking.entry.priority
    return queue.surplus > 0 or any(level < priority for level in queue.priorities)
