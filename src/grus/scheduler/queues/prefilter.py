"""Prefilter: cheap checks before a walk down a queue's line, whether anything in it could be served."""

from typing import TYPE_CHECKING

from grus.scheduler.preempt.reclaim_eligibility import may_take
from grus.scheduler.preempt.victim_candidates import finds_victim
from grus.scheduler.queues.admission_stage import AllocationStage
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.state.node_capacity_index import SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle


def worth_asking(leaf: QueueNode, stage: AllocationStage) -> bool:
    """Return whether anything in the line is for this stage."""
    if stage is AllocationStage.OVER:
        return True
    least = leaf.line.least
    if stage is AllocationStage.FAIR:
        return leaf.within_share(least)
    if stage is AllocationStage.BRANCH:
        return any(least <= node.quota_room() for node in leaf.path[1:-1])
    return least <= leaf.quota_room() or own_to_take(leaf)


def hopeless(cycle: "Cycle", leaf: QueueNode) -> bool:
    """Return whether nothing that the queue waits for has a place, and it may take nothing from others."""
    free, least = cycle.pool.free[SOON], leaf.line.least
    if least <= free:
        for shape in leaf.line.shapes:
            if shape.minimum <= free and not cycle.known_placeless(shape):
                return False
    if own_to_take(leaf) or _late_backfill(cycle) or cycle.over_leaves()[2]:
        return False
    known = cycle.victims_found.get(leaf)
    if known is None or known[0] != cycle.transaction.version:
        found = may_take(cycle, leaf, least) and finds_victim(cycle, leaf, least)
        known = cycle.victims_found[leaf] = (cycle.transaction.version, found)
    return not known[1]


def _late_backfill(cycle: "Cycle") -> bool:
    return any((entry.backfill_until or 0.0) <= cycle.now for entry in cycle.snapshot.backfilled.values())


def own_to_take(leaf: QueueNode) -> bool:
    """Return whether a waiting job of the queue might take from others of the queue."""
    if leaf.surplus:
        return True
    return bool(leaf.priorities) and min(leaf.priorities) < leaf.line.top_priority()
