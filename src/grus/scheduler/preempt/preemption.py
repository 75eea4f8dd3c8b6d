"""Preemption: take GPUs by right until the request fits, and give back what was not needed.

Sources in order: free GPUs were tried before; then other queues (reclaim), then the own queue. In each, jobs
shrink on all nodes before one is paused on any. Everything is tentative until the request provably fits.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduler.placement.gang_placement import PLANNED, Place
from grus.scheduler.preempt.epoch_windows import moment
from grus.scheduler.preempt.reclaim_eligibility import CapacityRequest, Piece, has_own, inside, victims_of
from grus.scheduler.preempt.victim_candidates import (
    cached_over_minima,
    late_backfills,
    own_then_reclaim,
    reclaim_pieces,
    reclaim_then_own,
    reclaim_then_shrink,
    surplus_above_share,
)
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.node_capacity_index import SOON, NodeState
from grus.scheduler.state.request_shapes import Shape

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle

NODES_TRIED = 4
"""Maximum number of nodes that are tried by themselves before the whole pool, for requests that need one
node.
"""

Source = Callable[["Cycle", CapacityRequest, int], Iterator[Piece]]


def make_room(cycle: "Cycle", asking: CapacityRequest) -> bool:
    """Take what the request has a right to and place it there as a plan; return False, with nothing changed,
    if that is impossible.
    """
    before = cycle.transaction.freed
    made = _make_room(cycle, asking)
    if not made:
        cycle.transaction.freed = before  # Everything is restored: a request that failed before still fails.
    return made


def _make_room(cycle: "Cycle", asking: CapacityRequest) -> bool:
    if not _enough_to_take(cycle, asking):
        return False
    places = _focus(cycle, asking)
    if (asking.minimum and has_own(asking)) or _anything_to_take(cycle, asking, places):
        for source, nodes in product(_sources(cycle, asking), places):
            if _take_and_seat(cycle, asking, source(cycle, asking, nodes)):
                return True
    if asking.minimum and asking.amount > GPU and cycle.has_reservation(asking):
        return _take_and_seat(cycle, asking, late_backfills(cycle, asking.shape.nodes))
    return False


def _sources(cycle: "Cycle", asking: CapacityRequest) -> list[Source]:
    """Return the sources in order; the next is tried only when the one before is not enough on any node."""
    found: list[Source] = [surplus_above_share] if cycle.over_leaves()[2] else []
    found.append(reclaim_pieces)
    if asking.minimum and has_own(asking):
        # Without own pieces to give, these equal reclaim.
        found += [reclaim_then_shrink] if asking.queue.surplus else []
        found += [reclaim_then_own, own_then_reclaim]
    return found


def _enough_to_take(cycle: "Cycle", asking: CapacityRequest) -> bool:
    """Check a cheap bound: whether all that might be taken, and what is free, is as much as the request."""
    room = cycle.pool.free[SOON] + sum(
        entry.held
        for entry in cycle.snapshot.backfilled.values()
        if (entry.backfill_until or 0.0) <= cycle.now
    )
    queue = asking.queue
    taken = 0
    if asking.minimum and has_own(asking):
        room += queue.held[SOON]
    for leaf, most in _perhaps_victims(cycle, asking):
        minima = cached_over_minima(leaf)
        takeable = sum(entry.held for entry in minima if entry.held <= most and not entry.never)
        taken += min(most, leaf.surplus + takeable)
    return room + taken >= asking.amount and room + taken > cycle.pool.free[SOON]


def _perhaps_victims(cycle: "Cycle", asking: CapacityRequest) -> Iterator[tuple[QueueNode, int]]:
    """Yield the queues of which something might be taken, and how much. With its own lower priorities gone,
    or what its siblings borrowed taken back, the queue may have any right.
    """
    queue = asking.queue
    own = asking.minimum and has_own(asking)
    if own or (len(queue.path) > 2 and any(inside(node, asking, cycle.pool) for node in queue.path[1:])):
        return ((leaf, leaf.held[SOON]) for leaf in cycle.over_leaves()[0] if leaf is not queue)
    return victims_of(cycle, asking)


def _anything_to_take(cycle: "Cycle", asking: CapacityRequest, places: list[int]) -> bool:
    """Return whether other queues have to give even one piece there; the last of the places covers all of
    them.
    """
    return bool(places) and next(reclaim_pieces(cycle, asking, places[-1]), None) is not None


def _focus(cycle: "Cycle", asking: CapacityRequest) -> list[int]:
    """Return node masks in which to look for pieces. For a request that needs one node: single nodes that
    might have enough, the roomiest first; none if there is none. For a gang of one type: the nodes of each
    type, then all.
    """
    shape = asking.shape
    if shape.parts[0].gpus == 0 or shape.minimum <= GPU:
        return [shape.nodes]
    if not shape.one_node:
        return _by_type(cycle, shape)
    takeable: dict[NodeState, int] = {}
    for entry in _perhaps(cycle, asking):
        for seat in entry.places:
            takeable[seat.node] = takeable.get(seat.node, 0) + seat.held
    found = []
    for node, amount in takeable.items():
        # The rest of a shared device counts too: the others on it may have to give theirs.
        free = sum(d.free[SOON] for d in node.devices if d.open and d.kind in shape.kinds)
        if node.bit & shape.nodes and free + amount >= asking.amount:
            found.append((-free, node.index, node.bit))
    found.sort()
    nodes = [bit for _, _, bit in found[:NODES_TRIED]]
    return [*nodes, shape.nodes & sum(bit for _, _, bit in found)] if nodes else []


def _by_type(cycle: "Cycle", shape: Shape) -> list[int]:
    if len(shape.groups) < 2:
        return [shape.nodes]
    found = [0] * len(shape.groups)
    for number, group in enumerate(shape.groups):
        for kind in group:
            found[number] |= cycle.pool.kind_nodes[kind] & shape.nodes
    return [*dict.fromkeys(nodes for nodes in found if nodes), shape.nodes]


def _perhaps(cycle: "Cycle", asking: CapacityRequest) -> Iterator[Entry]:
    """Yield all entries of which something might be taken, in any order and amount."""
    for leaf, _ in _perhaps_victims(cycle, asking):
        yield from cached_over_minima(leaf)
        yield from (entry for entry in leaf.elastic.values() if entry.surplus)
    if asking.minimum and has_own(asking):
        yield from asking.queue.running.values()


def _take_and_seat(cycle: "Cycle", asking: CapacityRequest, pieces: Iterator[Piece]) -> bool:
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
        if found is not None and not _goes_before(asking, taken):
            transaction.undo(mark)
            found = None
        if found is not None:
            found = _return_unneeded(cycle, asking, taken, found, mark)
            transaction.seat(asking.entry, tuple(found), now=False)
            at = moment(asking.amount, taken, cycle.now, cycle.wait_until(asking))
            cycle.put_off_victims(taken, at)
            cycle.note_victims(asking.entry, taken)
            return True
    transaction.undo(start)
    return False


def _goes_before(asking: CapacityRequest, taken: list[Piece]) -> bool:
    """Return whether none of those that it takes from would be served before it when they ask again: else
    they would get back what was taken from them.
    """
    if asking.entitled or asking.entry.never or not asking.minimum:
        return True
    mine = _standing(asking.queue, asking.amount)
    return all(piece.surplus or _standing(piece.entry.queue, piece.amount) >= mine for piece in taken)


def _standing(queue: QueueNode, amount: int) -> int:
    """Return 0 for a request inside its queue's quota, 1 inside that of a branch above, else 2."""
    if queue.held[SOON] + amount <= queue.quota:
        return 0
    return 1 if any(node.held[SOON] + amount <= node.quota for node in queue.path[1:-1]) else 2


def _privileged(cycle: "Cycle", asking: CapacityRequest) -> bool:
    """Return whether it is inside quota (or non-preemptible, which must be inside): always served, at any
    cost to the others.
    """
    return asking.entitled or asking.entry.never or inside(asking.queue, asking, cycle.pool)


def _fits(cycle: "Cycle", asking: CapacityRequest) -> list[Place] | None:
    if asking.entry.breaks(asking.amount, cycle.capacity, SOON):
        return None
    return cycle.find_places(asking, SOON, PLANNED)[0]


def _return_unneeded(
    cycle: "Cycle", asking: CapacityRequest, taken: list[Piece], found: list[Place], mark: int
) -> list[Place]:
    """Give back pieces that the request does not need, the most valuable first."""
    transaction = cycle.transaction
    for piece in reversed(taken[:-1]):
        if not _returnable(piece):
            continue
        transaction.undo(mark)
        transaction.reseat(piece.entry, piece.places)
        before = transaction.mark()
        again = _fits(cycle, asking) if _still_right(cycle, asking, piece, taken) else None
        if again is None:
            transaction.unseat(piece.entry, piece.places)
            before = transaction.mark()
            again = _fits(cycle, asking)
            assert again is not None, "what was taken before still makes room"
        else:
            taken.remove(piece)
        mark, found = before, again
    return found


def _still_right(cycle: "Cycle", asking: CapacityRequest, back: Piece, taken: list[Piece]) -> bool:
    """Return whether the queue was entitled to take from others if it keeps this piece of its own."""
    if back.entry.queue is not asking.queue or all(p.entry.queue is asking.queue for p in taken):
        return True
    return inside(asking.queue, asking, cycle.pool)


def _returnable(piece: Piece) -> bool:
    """Return whether the job can run with these GPUs back: not surplus without its minimum, nor an odd
    size.
    """
    entry = piece.entry
    if not piece.surplus:
        return not entry.running
    return entry.running and entry.size + len(piece.places) in entry.shape.sizes
