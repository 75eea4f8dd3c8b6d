"""Cheap looks before a walk down a queue's line: is there anything in it that could be served?"""

from typing import TYPE_CHECKING

from grus.scheduling.quota import QueueNode
from grus.scheduling.rights import may_take
from grus.scheduling.stages import Stage
from grus.scheduling.topology import SOON
from grus.scheduling.victims import finds_victim

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle


def worth_asking(leaf: QueueNode, stage: Stage) -> bool:
    """Whether anything in the line is for this stage."""
    if stage is Stage.OVER:
        return True
    least = leaf.line.least
    if stage is Stage.FAIR:
        return leaf.within_share(least)
    if stage is Stage.BRANCH:
        return any(least <= node.quota_room() for node in leaf.path[1:-1])
    return least <= leaf.quota_room() or own_to_take(leaf)


def hopeless(cycle: "Cycle", leaf: QueueNode) -> bool:
    """Whether nothing that the queue waits for has a place, and it may take nothing from anybody."""
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
    """Whether somebody of the queue waits who might take from others of the queue."""
    if leaf.surplus:
        return True
    return bool(leaf.priorities) and min(leaf.priorities) < leaf.line.top_priority()
