"""Making room: what may be taken from whom, in which order, and no more than needed.

Between queues by fairness (*reclaim*): a request inside its quota takes from any queue over quota; a queue
below its fair share takes from those above theirs, as long as it does not end up better off than they. In a
tree this is judged where the two branches part. Inside a queue by priority. A generator yields pieces, one at
a time, against the tentative state: every piece taken changes who may be asked next.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from grus.model.resources import GPU
from grus.scheduling.gang import PLANNED, Place, Shape, place
from grus.scheduling.quota import QueueNode
from grus.scheduling.snapshot import Entry
from grus.scheduling.topology import SOON, NodeState, Pool

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle

MINIMUM_RUN = 60.0
"""Seconds for which a job's minimum is guarded against requests that are not inside quota."""
PATIENCE = 600.0
"""Seconds after which a minimum that crosses its queue's fair share may take surplus above quota."""
NODES_TRIED = 4
"""For requests that need one node: so many nodes are tried by themselves before the whole pool is."""


class Piece(NamedTuple):
    """Something that can be taken: seats of an elastic job above its minimum, or all that a job has."""

    entry: Entry
    places: tuple[Place, ...]
    surplus: bool

    @property
    def amount(self) -> int:
        return sum(place.held for place in self.places)


class Asking(NamedTuple):
    """Who asks for room: a waiting minimum, or a running job that would grow."""

    entry: Entry
    shape: Shape
    counts: list[int]
    """Replicas of each part that it asks for."""
    amount: int
    minimum: bool
    """Whether a waiting job's minimum is at stake; growth has fewer rights."""
    entitled: bool = False
    """Whether it is inside its queue's quota, if need be at the cost of that queue's own lower priorities."""
    owed: bool = True
    """Whether what is inside quota may be claimed as such; growth may only when no minimum waits."""

    @property
    def queue(self) -> QueueNode:
        return self.entry.queue

    def on_largest(self, pool: Pool) -> "Asking":
        """The same with the devices that have most memory first, where a memory slice counts for least."""
        parts = tuple(
            replace(part, kinds=tuple(sorted(part.kinds, key=lambda kind: (-pool.kinds[kind][1], kind))))
            for part in self.shape.parts
        )
        return self._replace(shape=replace(self.shape, parts=parts))

    def inside_types(self, branch: QueueNode, pool: Pool) -> "Asking":
        """The same limited to the types of which the branch has quota left, where its quota is by type."""
        if branch.by_type is None:
            return self
        kinds = kinds_inside(branch, self.shape, self.amount, pool)
        parts = tuple(replace(p, kinds=tuple(k for k in p.kinds if k in kinds)) for p in self.shape.parts)
        return self._replace(shape=replace(self.shape, parts=parts))


# ------------------------------------------------------------------------------------------- the rights


def parting(one: QueueNode, other: QueueNode) -> int:
    """The level at which the paths of two queues part: the first at which they differ."""
    level = 1
    while one.path[level] is other.path[level]:
        level += 1
    return level


def inside(branch: QueueNode, asking: Asking, pool: Pool) -> bool:
    """Whether the branch would hold at most its quota with what is asked."""
    if branch.held[SOON] + asking.amount > branch.quota:
        return False
    return branch.by_type is None or bool(kinds_inside(branch, asking.shape, asking.amount, pool))


def kinds_inside(branch: QueueNode, shape: Shape, amount: int, pool: Pool) -> set[int]:
    """Kinds of device of which the branch may hold that much more inside its quota by type."""
    assert branch.by_type is not None
    found = set()
    for kind in shape.kinds:
        name = pool.kinds[kind][0]
        key = name if name in branch.by_type else "any"
        if branch.held_by_type.get(key, 0) + amount <= branch.typed_quota(key):
            found.add(kind)
    return found


def may_reclaim(cycle: "Cycle", asking: Asking, piece: Piece) -> bool:
    """Whether the asking queue has a right to this piece of another queue."""
    queue, victim = asking.queue, piece.entry.queue
    level = parting(queue, victim)
    if not all(node.over() for node in victim.path[level:]):
        return False
    mine, theirs = queue.path[level], victim.path[level]
    if asking.owed and inside(mine, asking, cycle.pool):
        return True
    if not piece.surplus and cycle.guarded(piece.entry):
        return False
    if piece.surplus and asking.minimum and cycle.impatient(asking.entry):
        return True
    return _fair(asking, piece, mine, theirs)


def _fair(asking: Asking, piece: Piece, mine: QueueNode, theirs: QueueNode) -> bool:
    """Below its share, from one above its own rounded up, and afterwards not better off than the victim."""
    if not asking.minimum and not piece.surplus:
        return False
    if mine.held[SOON] >= mine.share or mine.exact <= 0:
        return False
    if theirs.held[SOON] <= theirs.share_rounded_up():
        return False
    after = (theirs.held[SOON] - piece.amount) * mine.exact
    return (mine.held[SOON] + asking.amount) * theirs.exact <= after + 1.0


# ------------------------------------------------------------------------------------------- the pieces


def surplus_pieces(entries: Iterable[Entry], nodes: int) -> Iterator[Piece]:
    """What elastic jobs hold above their minima, step by step: lowest priority, then the largest first."""
    elastic = [entry for entry in entries if entry.surplus > 0]
    while elastic:
        elastic.sort(key=lambda entry: (entry.priority, -entry.held, -entry.age[0], entry.id))
        progress = False
        for entry in elastic:
            step = shrink_step(entry)
            if step and any(place.node.bit & nodes for place in step):
                before = entry.size
                yield Piece(entry, step, True)
                if entry.size < before:
                    progress = True
                    break
        if not progress:
            return
        elastic = [entry for entry in elastic if entry.surplus > 0]


def shrink_step(entry: Entry) -> tuple[Place, ...]:
    """The seats that a job gives back on its way to the next smaller size: the last to come go first."""
    lower = entry.shape.lower_size(entry.size)
    if lower is None:
        return ()
    mine = [place for place in entry.places if place.part == entry.shape.elastic]
    mine.sort(key=lambda place: place.number)
    return tuple(mine[lower:])


def over_minima(queue: QueueNode) -> list[Entry]:
    """Running jobs whose minimum is over the queue's quota: jobs fill it by priority, then in turn between
    users, then by age; one that does not fit is over and the walk goes on."""
    room = queue.quota
    found = []
    for entry in _quota_order(queue):
        if entry.held_minimum <= room and not _breaks_types(queue, entry):
            room -= entry.held_minimum
        else:
            found.append(entry)
    return found


def cached_over_minima(queue: QueueNode) -> list[Entry]:
    """`over_minima`, worked out once for the jobs that the queue has and what they hold at the moment."""
    name = (queue.changes, queue.quota)
    if queue.over_cache is None or queue.over_cache[0] != name:
        queue.over_cache = (name, over_minima(queue))
    return queue.over_cache[1]


def _quota_order(queue: QueueNode) -> list[Entry]:
    by_user: dict[tuple[int, str], int] = {}
    order = []
    for entry in sorted(
        (entry for entry in queue.running.values() if entry.running), key=lambda e: (-e.priority, e.age)
    ):
        filled = by_user.get((entry.priority, entry.user), 0)
        order.append((-entry.priority, filled, entry.age, entry))
        by_user[(entry.priority, entry.user)] = filled + entry.held_minimum
    order.sort(key=lambda item: item[:3])
    return [item[3] for item in order]


def _breaks_types(queue: QueueNode, entry: Entry) -> bool:
    """Whether a type that this job holds is beyond its number in a quota by type."""
    if queue.by_type is None:
        return False
    kinds = {d.type if d.type in queue.by_type else "any" for place in entry.places for d in place.devices}
    return any(queue.held_by_type.get(kind, 0) > queue.typed_quota(kind) for kind in kinds)


def minima_pieces(entries: Iterable[Entry], nodes: int) -> Iterator[Piece]:
    """Whole jobs: lowest priority, then least lost work, then the youngest; never-preempted ones never."""
    order = sorted(
        (entry for entry in entries if not entry.never and entry.running),
        key=lambda entry: (entry.priority, -entry.saved_at, -entry.age[0], entry.id),
    )
    for entry in order:
        if entry.running and any(place.node.bit & nodes for place in entry.places):
            yield Piece(entry, entry.places, False)


def may_take(cycle: "Cycle", queue: QueueNode, amount: int) -> bool:
    """A cheap look at every level: whether that much more would be inside quota, or the branch is below its
    share and would still be poorer than the richest."""
    _, ratio, _ = cycle.over_leaves()
    for node in queue.path[1:]:
        held = node.held[SOON]
        if held + amount <= node.quota or (held < node.share and held + amount <= ratio * node.exact):
            return True
    return False


def finds_victim(cycle: "Cycle", queue: QueueNode, amount: int) -> bool:
    """Whether anybody has a piece that the queue might take to hold that much more: a cheap bound."""
    for leaf in cycle.over_leaves()[0]:
        if leaf is queue:
            continue
        level = parting(queue, leaf)
        mine = queue.path[level]
        if mine.held[SOON] + amount <= mine.quota:
            return True
        most = _fair_bound(mine, leaf.path[level], amount)
        if most > 0 and (leaf.surplus or any(e.held <= most for e in cached_over_minima(leaf))):
            return True
    return False


def reclaim_pieces(cycle: "Cycle", asking: Asking, nodes: int) -> Iterator[Piece]:
    """Pieces of other queues that the asking one has a right to: over fair share first, then by ratio."""
    # What was taken inside a branch may open the right to take from outside it: so once more in a tree.
    for _ in range(len(asking.queue.path) - 1):
        branches = _victim_branches(cycle, asking)
        for branch in sorted(branches, key=_taking_key):
            yield from _branch_pieces(cycle, asking, branches[branch], nodes)


def _victim_branches(cycle: "Cycle", asking: Asking) -> dict[QueueNode, list[QueueNode]]:
    """Queues over quota that the asking one might take from, by the branch where their ways part."""
    found: dict[QueueNode, list[QueueNode]] = {}
    for leaf, _ in _victims(cycle, asking):
        found.setdefault(leaf.path[parting(asking.queue, leaf)], []).append(leaf)
    return found


def _victims(cycle: "Cycle", asking: Asking) -> Iterator[tuple[QueueNode, int]]:
    """Queues that the asking one might take from, and at most how much by the rules between them."""
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
        fair = _fair_bound(mine, theirs, asking.amount)
        if impatient:
            fair = max(fair, leaf.surplus)
        if fair > 0:
            yield leaf, fair


def _fair_bound(mine: QueueNode, theirs: QueueNode, amount: int) -> int:
    """How much a branch above its fair share can give before the taker would be better off."""
    if mine.held[SOON] >= mine.share or mine.exact <= 0 or theirs.held[SOON] <= theirs.exact:
        return 0
    return int(theirs.held[SOON] - (mine.held[SOON] + amount) * theirs.exact / mine.exact) + 1


def _branch_pieces(cycle: "Cycle", asking: Asking, leaves: list[QueueNode], nodes: int) -> Iterator[Piece]:
    """What one branch may have to give, whichever of its queues it is in."""
    for piece in surplus_pieces([entry for leaf in leaves for entry in leaf.elastic.values()], nodes):
        if may_reclaim(cycle, asking, piece):
            yield piece
    minima = [entry for leaf in leaves for entry in cached_over_minima(leaf)]
    for piece in minima_pieces(minima, nodes):
        if may_reclaim(cycle, asking, piece):
            yield piece


def _taking_key(queue: QueueNode) -> tuple[bool, float, str]:
    ratio = queue.held[SOON] / queue.exact if queue.exact > 0 else float("inf")
    return (queue.held[SOON] <= queue.share, -ratio, queue.name)


def own_pieces(cycle: "Cycle", asking: Asking, nodes: int) -> Iterator[Piece]:
    """Pieces of the asking queue: surplus of equal or lower priority, then minima of lower priority."""
    queue, priority = asking.queue, asking.entry.priority
    if not asking.minimum:
        return
    if queue.surplus:
        elastic = [e for e in queue.elastic.values() if e.priority <= priority and e is not asking.entry]
        yield from surplus_pieces(elastic, nodes)
    if not any(level < priority for level in queue.priorities):
        return
    entitled = asking.entitled or asking.entry.never
    # What is inside quota would come back at once: a request over quota leaves it alone.
    running = queue.running.values() if entitled else cached_over_minima(queue)
    for piece in minima_pieces([entry for entry in running if entry.priority < priority], nodes):
        if entitled or not cycle.guarded(piece.entry):
            yield piece


def late_backfills(cycle: "Cycle", nodes: int) -> Iterator[Piece]:
    """Jobs that were let past a reservation which is due now."""
    late = [e for e in cycle.snapshot.backfilled.values() if (e.backfill_until or 0.0) <= cycle.now]
    yield from minima_pieces(late, nodes)


# ----------------------------------------------------------------------------------------- taking them


Source = Callable[["Cycle", Asking, int], Iterator[Piece]]


def _reclaim_then_own(cycle: "Cycle", asking: Asking, nodes: int) -> Iterator[Piece]:
    return chain(reclaim_pieces(cycle, asking, nodes), own_pieces(cycle, asking, nodes))


def _own_then_reclaim(cycle: "Cycle", asking: Asking, nodes: int) -> Iterator[Piece]:
    return chain(own_pieces(cycle, asking, nodes), reclaim_pieces(cycle, asking, nodes))


SOURCES: tuple[Source, ...] = (reclaim_pieces, _reclaim_then_own, _own_then_reclaim)
"""In order; the next is tried only when the one before is not enough."""


def make_room(cycle: "Cycle", asking: Asking) -> bool:
    """Take what the asking has a right to and seat it there as a plan; False, and nothing changed, if it
    cannot be done."""
    before = cycle.transaction.freed
    made = _make_room(cycle, asking)
    if not made:
        cycle.transaction.freed = before  # Everything is as it was: what was known to fail still does.
    return made


def _make_room(cycle: "Cycle", asking: Asking) -> bool:
    if not _enough_to_take(cycle, asking):
        return False
    places = _focus(cycle, asking)
    for source in SOURCES:
        for nodes in places:
            if _take_and_seat(cycle, asking, source(cycle, asking, nodes)):
                return True
    if asking.minimum and asking.amount > GPU:
        return _take_and_seat(cycle, asking, late_backfills(cycle, asking.shape.nodes))
    return False


def _enough_to_take(cycle: "Cycle", asking: Asking) -> bool:
    """A cheap bound: whether all that might be taken, and what is free, is as much as is asked."""
    room = cycle.pool.free[SOON] + sum(
        entry.held
        for entry in cycle.snapshot.backfilled.values()
        if (entry.backfill_until or 0.0) <= cycle.now
    )
    queue = asking.queue
    taken = 0
    victims = _victims(cycle, asking)
    if asking.minimum and _has_own(asking):
        # With its own lower priorities gone the queue may have any right.
        room += queue.held[SOON]
        victims = ((leaf, leaf.held[SOON]) for leaf in cycle.over_leaves()[0] if leaf is not queue)
    for leaf, most in victims:
        minima = cached_over_minima(leaf)
        takeable = sum(entry.held for entry in minima if entry.held <= most and not entry.never)
        taken += min(most, leaf.surplus + takeable)
    return room + taken >= asking.amount and room + taken > cycle.pool.free[SOON]


def _focus(cycle: "Cycle", asking: Asking) -> list[int]:
    """Where to look for pieces: for what needs one node, by themselves the nodes where enough might be had,
    the roomiest first; nowhere if there is none."""
    shape = asking.shape
    if not shape.one_node or shape.parts[0].gpus == 0 or shape.minimum <= GPU:
        return [shape.nodes]
    takeable: dict[NodeState, int] = {}
    for entry in _perhaps(cycle, asking):
        for seat in entry.places:
            takeable[seat.node] = takeable.get(seat.node, 0) + seat.held
    found = []
    for node, amount in takeable.items():
        free = sum(node.counts[SOON].get(kind, 0) for kind in shape.kinds) * GPU
        if node.bit & shape.nodes and free + amount >= asking.amount:
            found.append((-free, node.index, node.bit))
    found.sort()
    nodes = [bit for _, _, bit in found[:NODES_TRIED]]
    return [*nodes, shape.nodes & sum(bit for _, _, bit in found)] if nodes else []


def _perhaps(cycle: "Cycle", asking: Asking) -> Iterator[Entry]:
    """Everybody of whom something might be taken, whatever the order and the amount."""
    own = asking.minimum and _has_own(asking)
    leaves = cycle.over_leaves()[0] if own else [leaf for leaf, _ in _victims(cycle, asking)]
    for leaf in leaves:
        yield from cached_over_minima(leaf)
        yield from (entry for entry in leaf.elastic.values() if entry.surplus)
    if own:
        yield from asking.queue.running.values()


def _has_own(asking: Asking) -> bool:
    """Whether the queue itself has surplus or lower priorities to give."""
    queue, priority = asking.queue, asking.entry.priority
    return queue.surplus > 0 or any(level < priority for level in queue.priorities)


def _take_and_seat(cycle: "Cycle", asking: Asking, pieces: Iterator[Piece]) -> bool:
    transaction = cycle.transaction
    start = transaction.mark()
    taken: list[Piece] = []
    evicted = 0
    for piece in pieces:
        transaction.unseat(piece.entry, piece.places)
        taken.append(piece)
        evicted += 0 if piece.surplus else piece.amount
        if evicted > 2 * asking.amount and not _privileged(cycle, asking):
            break
        mark = transaction.mark()
        found = _fits(cycle, asking)
        if found is not None:
            found = _return_unneeded(cycle, asking, taken, found, mark)
            transaction.seat(asking.entry, tuple(found), now=False)
            cycle.note_victims(asking.entry, taken)
            return True
    transaction.undo(start)
    return False


def _privileged(cycle: "Cycle", asking: Asking) -> bool:
    """Inside quota (or never-preempted, which must be): always served, whatever it costs the others."""
    return asking.entitled or asking.entry.never or inside(asking.queue, asking, cycle.pool)


def _fits(cycle: "Cycle", asking: Asking) -> list[Place] | None:
    if asking.queue.breaks(asking.amount, cycle.capacity, SOON):
        return None
    near = asking.entry.places
    mark = cycle.transaction.mark()
    found = place(cycle.transaction, asking.shape, asking.counts, SOON, PLANNED, near)
    if found is not None and cycle.too_much(asking, found, SOON):
        cycle.transaction.undo(mark)
        return None
    return found


def _return_unneeded(
    cycle: "Cycle", asking: Asking, taken: list[Piece], found: list[Place], mark: int
) -> list[Place]:
    """Give back, the most precious first, what the request also fits without."""
    transaction = cycle.transaction
    for piece in reversed(taken[:-1]):
        if not _returnable(piece):
            continue
        transaction.undo(mark)
        transaction.reseat(piece.entry, piece.places)
        before = transaction.mark()
        again = _fits(cycle, asking)
        if again is None:
            transaction.unseat(piece.entry, piece.places)
            before = transaction.mark()
            again = _fits(cycle, asking)
            assert again is not None, "what was taken before still makes room"
        else:
            taken.remove(piece)
        mark, found = before, again
    return found


def _returnable(piece: Piece) -> bool:
    """Whether the job can run with these seats back: not surplus without its minimum, nor an odd size."""
    entry = piece.entry
    if not piece.surplus:
        return not entry.running
    return entry.running and entry.size + len(piece.places) in entry.shape.sizes
