"""Barriers: blocked gangs that fit their queue's quota. In that queue no job of lower or equal importance
passes them, except one that is sure to end before they are due (backfill).
"""

from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduler.placement.gang_placement import PLANNED, place
from grus.scheduler.preempt.reclaim_eligibility import CapacityRequest
from grus.scheduler.queues.gang_reservation import due_in_quota, passes
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.state.node_capacity_index import SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle


class Barriers:
    """Barriers of all queues, at most one each: the first blocked gang of this cycle, and the time when it is
    due.
    """

    def __init__(self) -> None:
        self._gangs: dict[QueueNode, tuple[CapacityRequest, float]] = {}

    def put(self, cycle: "Cycle", asking: CapacityRequest) -> None:
        """Let a gang that was tried in vain hold back the rest of its queue, if its turn has come."""
        queue = asking.queue
        if not GPU < asking.amount <= queue.quota or queue in self._gangs:
            return
        due = due_in_quota(cycle, asking)
        if due is not None and (cycle.known_placeless(asking.shape) or not _has_place(cycle, asking)):
            self._gangs[queue] = (asking, due)

    def hold(self, cycle: "Cycle", asking: CapacityRequest) -> bool:
        """Return whether it is behind a gang and might not end before the gang's reservation is due."""
        due = self._due(asking)
        return due is not None and not passes(cycle, asking, due)

    def passed(self, cycle: "Cycle", asking: CapacityRequest) -> float | None:
        """Return the time when the gang that it is let past is due; None if it is behind none, or not let
        past.
        """
        due = self._due(asking)
        return due if due is not None and passes(cycle, asking, due) else None

    def all_behind(self, leaf: QueueNode) -> bool:
        """Return whether nothing in the queue can pass its blocked gang."""
        gang, _ = self._gangs[leaf]
        return not leaf.line.limited and all(gang.shape.competes(shape) for shape in leaf.line.shapes)

    def _due(self, asking: CapacityRequest) -> float | None:
        """Return the time when the blocked gang ahead of it is due: a gang that could use the same
        resources.
        """
        gang, due = self._gangs.get(asking.queue, (None, 0.0))
        if gang is None or gang.entry is asking.entry or gang.entry.priority < asking.entry.priority:
            return None
        return due if gang.shape.competes(asking.shape) else None


def _has_place(cycle: "Cycle", asking: CapacityRequest) -> bool:
    """Return whether it is not blocked at all: its turn comes at a later stage."""
    mark, freed = cycle.transaction.mark(), cycle.transaction.freed
    found = place(cycle.transaction, asking.shape, asking.counts, SOON, PLANNED)
    cycle.transaction.undo(mark)
    cycle.transaction.freed = freed  # Nothing more is free than before.
    return found is not None
