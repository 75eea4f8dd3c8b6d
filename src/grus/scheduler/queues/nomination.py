"""Nomination: a job that made room for another waits behind it and does not compete with it.

Without this, GPUs taken back for one could be given to another, or to the one that gave them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.state.job_entry import Entry


def behind_preemptor(cycle: "Cycle", entry: "Entry") -> bool:
    """Return whether it made room for a job that has no GPUs yet and was not tried in vain: it would only
    have to make room again.
    """
    preemptor = awaited(cycle, entry)
    if preemptor is None or _leads_ring(cycle, entry, preemptor):
        return False
    return (preemptor.queue.line, preemptor.priority, preemptor.alike) not in cycle.blocked


def awaited(cycle: "Cycle", entry: "Entry") -> "Entry | None":
    """Return the job for which it made room, as long as that job waits and has no GPUs."""
    made_for = entry.job.made_room_for
    preemptor = None if made_for is None else cycle.snapshot.entries.get(made_for)
    if preemptor is None or not preemptor.waiting or preemptor.places:
        return None
    return preemptor


def _leads_ring(cycle: "Cycle", entry: "Entry", preemptor: "Entry") -> bool:
    """Return whether the jobs for which it made room, one after another, made room for it in turn, and none
    of them started before it: one of a ring has to go first.
    """
    seen: set[Entry] = set()
    other: Entry | None = preemptor
    while other is not None and other not in seen and other.started_at >= entry.started_at:
        if other.job.made_room_for == entry.id:
            return True
        seen.add(other)
        other = awaited(cycle, other)
    return False
