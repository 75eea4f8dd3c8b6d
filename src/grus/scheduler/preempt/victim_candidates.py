"""Preemption victims: the pieces that can be taken, in the order in which they are taken.

Generators yield against the tentative state: every piece taken changes the next candidates. Inside a victim
queue surplus of elastic jobs goes first, then the lowest priority, then the least lost work: by the last
checkpoint, and by the period of its epochs if known.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from grus.scheduler.placement.gang_placement import Place, held_by_type
from grus.scheduler.preempt.epoch_windows import resizes_from_zero, safe_since, saves
from grus.scheduler.preempt.reclaim_eligibility import (
    CapacityRequest,
    Piece,
    fair_bound,
    inside,
    may_reclaim,
    parting,
    victims_of,
)
from grus.scheduler.queues.gpu_type_quota import covers
from grus.scheduler.queues.queue_usage_tree import UNLIMITED, QueueNode
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.node_capacity_index import SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle

EVERYWHERE = -1
"""All nodes, as bits."""


def surplus_pieces(entries: Iterable[Entry], nodes: int) -> Iterator[Piece]:
    """Yield surplus of elastic jobs above their minima, step by step: lowest priority, then those whose work
    is not lost by it, then the largest first.
    """

    def order(entry: Entry) -> tuple[int, bool, int, float, str]:
        return (entry.priority, resizes_from_zero(entry), -entry.held, -entry.age[0], entry.id)

    elastic = [entry for entry in entries if entry.surplus > 0]
    while elastic:
        elastic.sort(key=order)
        progress = False
        for entry in elastic:
            step = shrink_step(entry, nodes)
            if step and any(place.node.bit & nodes for place in step):
                before = entry.size
                yield Piece(entry, step, True)
                if entry.size < before:
                    progress = True
                    break
        if not progress:
            return
        elastic = [entry for entry in elastic if entry.surplus > 0]


def shrink_step(entry: Entry, nodes: int = EVERYWHERE) -> tuple[Place, ...]:
    """Return the placements that a job gives back on its way to the next smaller size: those on the wanted
    nodes first, of these the ones whose workers have not joined the others yet, then the last to come.
    """
    lower = entry.shape.lower_size(entry.size)
    if lower is None:
        return ()
    mine = [place for place in entry.places if place.part == entry.shape.elastic]
    job = entry.job
    apart = {(seat.index, seat.born) for seat in job.seats if not seat.joined} if job.team else set()
    mine.sort(key=lambda p: (bool(p.node.bit & nodes), (p.number, p.born) in apart, p.number))
    return tuple(mine[lower:])


def minima_pieces(entries: Iterable[Entry], nodes: int, now: float, until: float) -> Iterator[Piece]:
    """Yield whole jobs: lowest priority, then least lost work, then the youngest; non-preemptible ones never.
    Jobs that save when they are asked to end lose less than those that cannot. `until`: latest time to let
    them finish their epochs.
    """

    def order(entry: Entry) -> tuple[int, bool, float, float, str]:
        safe = entry.saved_at if entry.tag is None else safe_since(entry, now, until)
        if (every := entry.job.spec.checkpoint.every) is not None:
            safe = max(safe, now - every)
        return (entry.priority, not saves(entry), -safe, -entry.age[0], entry.id)

    takeable = sorted((entry for entry in entries if not entry.never and entry.running), key=order)
    for entry in takeable:
        if entry.running and any(place.node.bit & nodes for place in entry.places):
            yield Piece(entry, entry.places, False)


def over_minima(queue: QueueNode) -> list[Entry]:
    """Return running jobs whose minimum is over the queue's quota: jobs fill it by priority, then in turn
    between users, then by age; one that does not fit is over, and the walk continues.
    """
    room = queue.quota
    found = []
    for entry in _quota_order(queue):
        if entry.held_minimum <= room and not _breaks_types(queue, entry):
            room -= entry.held_minimum
        else:
            found.append(entry)
    return found


def cached_over_minima(queue: QueueNode) -> list[Entry]:
    """Return `over_minima`, computed once for the queue's jobs and their present holdings."""
    return _over_cache(queue)[1]


def _over_cache(queue: QueueNode) -> tuple[tuple[int, int], list[Entry], int]:
    name = (queue.version, queue.quota)
    if queue.over_cache is None or queue.over_cache[0] != name:
        found = over_minima(queue)
        queue.over_cache = (name, found, min((entry.held for entry in found), default=UNLIMITED))
    return queue.over_cache


def least_over_minimum(queue: QueueNode) -> int:
    """Return the smallest holding of `over_minima`, in micro-GPUs; beyond all bounds if there is none."""
    return _over_cache(queue)[2]


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
    """Return whether a type that this job holds is beyond its number in a quota by type."""
    if queue.by_type is None:
        return False
    kinds = {covers(queue.by_type, kind) for kind in held_by_type(entry.places)}
    return any(queue.held_by_type.get(kind, 0) > queue.typed_quota(kind) for kind in kinds)


def finds_victim(cycle: "Cycle", queue: QueueNode, amount: int) -> bool:
    """Return whether any job has a piece that the queue might take to hold that much more: a cheap bound."""
    for leaf in cycle.over_leaves()[0]:
        if leaf is queue:
            continue
        level = parting(queue, leaf)
        mine = queue.path[level]
        if mine.held[SOON] + amount <= mine.quota:
            return True
        most = fair_bound(mine, leaf.path[level], amount)
        if most > 0 and (leaf.surplus or least_over_minimum(leaf) <= most):
            return True
    return False


def reclaim_pieces(cycle: "Cycle", asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    """Yield pieces of other queues that the requesting one has a right to: over fair share first, then by
    ratio.
    """
    # Pieces taken inside a branch may open the right to take from outside it: so repeat in a tree.
    for _ in range(len(asking.queue.path) - 1):
        branches = _victim_branches(cycle, asking)
        order = sorted(branches, key=_taking_key)
        for above in (True, False):
            group = [branches[branch] for branch in order if _above_share(branch) is above]
            for leaves in group:
                yield from _reclaim_surplus(cycle, asking, leaves, nodes)
            for leaves in group:
                yield from _reclaim_minima(cycle, asking, leaves, nodes)


def surplus_above_share(cycle: "Cycle", asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    """Yield surplus alone, of other queues above their fair share: it goes before any minimum of theirs."""
    branches = _victim_branches(cycle, asking)
    for branch in sorted(branches, key=_taking_key):
        if _above_share(branch):
            yield from _reclaim_surplus(cycle, asking, branches[branch], nodes)


def _victim_branches(cycle: "Cycle", asking: CapacityRequest) -> dict[QueueNode, list[QueueNode]]:
    """Return queues over quota that the requesting one might take from, by the branch at which their paths
    part.
    """
    found: dict[QueueNode, list[QueueNode]] = {}
    for leaf, _ in victims_of(cycle, asking):
        found.setdefault(leaf.path[parting(asking.queue, leaf)], []).append(leaf)
    return found


def _reclaim_surplus(
    cycle: "Cycle", asking: CapacityRequest, leaves: list[QueueNode], nodes: int
) -> Iterator[Piece]:
    """Yield surplus that one branch may have to give, from any of its queues."""
    for piece in surplus_pieces([entry for leaf in leaves for entry in leaf.elastic.values()], nodes):
        if may_reclaim(cycle, asking, piece):
            yield piece


def _reclaim_minima(
    cycle: "Cycle", asking: CapacityRequest, leaves: list[QueueNode], nodes: int
) -> Iterator[Piece]:
    """Yield whole jobs that one branch may have to give."""
    minima = [entry for leaf in leaves for entry in cached_over_minima(leaf)]
    level = parting(asking.queue, leaves[0])
    mine, theirs = asking.queue.path[level], leaves[0].path[level]
    if not (asking.owed and inside(mine, asking, cycle.pool)):
        most = fair_bound(mine, theirs, asking.amount)
        minima = [entry for entry in minima if entry.held <= most]
    for piece in minima_pieces(minima, nodes, cycle.now, cycle.wait_until(asking)):
        if may_reclaim(cycle, asking, piece):
            yield piece


def _taking_key(queue: QueueNode) -> tuple[bool, float, str]:
    ratio = queue.held[SOON] / queue.exact if queue.exact > 0 else float("inf")
    return (not _above_share(queue), -ratio, queue.name)


def _above_share(queue: QueueNode) -> bool:
    return queue.held[SOON] > queue.share


def own_surplus(asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    """Yield surplus of equal or lower priority of the requesting queue."""
    queue, priority = asking.queue, asking.entry.priority
    if asking.minimum and queue.surplus:
        elastic = [e for e in queue.elastic.values() if e.priority <= priority and e is not asking.entry]
        yield from surplus_pieces(elastic, nodes)


def own_pieces(cycle: "Cycle", asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    """Yield pieces of the requesting queue: surplus of equal or lower priority, then minima of lower
    priority.
    """
    queue, priority = asking.queue, asking.entry.priority
    if not asking.minimum:
        return
    yield from own_surplus(asking, nodes)
    if not any(level < priority for level in queue.priorities):
        return
    entitled = asking.entitled or asking.entry.never
    # GPUs inside quota, here or in a branch above, would be reclaimed at once: left alone if over quota.
    running = queue.running.values() if entitled else cached_over_minima(queue)
    lower = [entry for entry in running if entry.priority < priority]
    for piece in minima_pieces(lower, nodes, cycle.now, cycle.wait_until(asking)):
        if entitled or (all(node.over() for node in queue.path[1:]) and not cycle.guarded(piece.entry)):
            yield piece


def late_backfills(cycle: "Cycle", nodes: int) -> Iterator[Piece]:
    """Yield jobs that were backfilled past a reservation which is due now."""
    late = [e for e in cycle.snapshot.backfilled.values() if (e.backfill_until or 0.0) <= cycle.now]
    yield from minima_pieces(late, nodes, cycle.now, cycle.now)


def reclaim_then_shrink(cycle: "Cycle", asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    """Reclaim, then shrink jobs of the requesting queue, without pausing any of them."""
    return chain(reclaim_pieces(cycle, asking, nodes), own_surplus(asking, nodes))


def reclaim_then_own(cycle: "Cycle", asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    return chain(reclaim_pieces(cycle, asking, nodes), own_pieces(cycle, asking, nodes))


def own_then_reclaim(cycle: "Cycle", asking: CapacityRequest, nodes: int) -> Iterator[Piece]:
    # Its own lower priorities count in any place: without them the request is inside quota.
    return chain(own_pieces(cycle, asking, EVERYWHERE), reclaim_pieces(cycle, asking, nodes))
