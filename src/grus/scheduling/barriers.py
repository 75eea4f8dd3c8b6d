"""Blocked gangs that fit their queue's quota: in that queue nothing less important, or as important, passes
them but what is sure to end before they are due (backfill)."""

from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduling.gang import PLANNED, place
from grus.scheduling.quota import QueueNode
from grus.scheduling.reservation import due_in_quota, passes
from grus.scheduling.rights import Asking
from grus.scheduling.topology import SOON

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle


class Barriers:
    """One for each queue at most: its first blocked gang of this cycle, and when that is due."""

    def __init__(self) -> None:
        self._gangs: dict[QueueNode, tuple[Asking, float]] = {}

    def put(self, cycle: "Cycle", asking: Asking) -> None:
        """Let a gang that was tried in vain hold the rest of its queue back, if its turn has come."""
        queue = asking.queue
        if not GPU < asking.amount <= queue.quota or queue in self._gangs:
            return
        due = due_in_quota(cycle, asking)
        if due is not None and (cycle.known_placeless(asking.shape) or not _has_place(cycle, asking)):
            self._gangs[queue] = (asking, due)

    def hold(self, cycle: "Cycle", asking: Asking) -> bool:
        """Whether it is behind a gang and would not be sure to end before that is due."""
        due = self._due(asking)
        return due is not None and not passes(cycle, asking, due)

    def passed(self, cycle: "Cycle", asking: Asking) -> float | None:
        """When the gang is due that it is let past; None if it is behind none, or not let past."""
        due = self._due(asking)
        return due if due is not None and passes(cycle, asking, due) else None

    def all_behind(self, leaf: QueueNode) -> bool:
        """Whether nothing in the queue can pass its blocked gang."""
        gang, _ = self._gangs[leaf]
        return not leaf.line.limited and all(gang.shape.competes(shape) for shape in leaf.line.shapes)

    def _due(self, asking: Asking) -> float | None:
        """When the blocked gang is due that it is behind: one that could use what it asks for."""
        gang, due = self._gangs.get(asking.queue, (None, 0.0))
        if gang is None or gang.entry is asking.entry or gang.entry.priority < asking.entry.priority:
            return None
        return due if gang.shape.competes(asking.shape) else None


def _has_place(cycle: "Cycle", asking: Asking) -> bool:
    """Whether it is not blocked at all: its turn comes at a later stage."""
    mark, freed = cycle.transaction.mark(), cycle.transaction.freed
    found = place(cycle.transaction, asking.shape, asking.counts, SOON, PLANNED)
    cycle.transaction.undo(mark)
    cycle.transaction.freed = freed  # Nothing was freed that was not free before.
    return found is not None
