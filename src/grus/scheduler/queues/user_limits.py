"""Limits of GPUs per user, over all queues: a hard rule beside the limits of queues.

A job that would lift its user above the limit waits, and holds no other job back. Nothing is taken from a
user whose limit was lowered: running jobs keep their GPUs, and no more are given.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from grus.model.identifiers import UserName
from grus.scheduler.state.node_capacity_index import SOON

if TYPE_CHECKING:
    from grus.scheduler.queues.queue_usage_tree import QueueNode
    from grus.scheduler.state.job_entry import Entry

USER_LIMIT = "user limit"
"""Code of a job that waits because of its user's limit."""
UserLimits = Mapping[UserName, int]
"""Micro-GPUs by user; users without a limit are left out."""


class Allowance:
    """Limit of one user, and its use at both horizons of `pool_topology`, in micro-GPUs."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = [0, 0]

    def lacks(self, amount: int, horizon: int) -> bool:
        return self.held[horizon] + amount > self.limit


def frees_own(entry: "Entry") -> bool:
    """Return True if a job of the same user and queue could give up surplus, or all it has, for this one."""
    return any(
        other.user == entry.user and other.running and (other.surplus or other.priority < entry.priority)
        for other in entry.queue.running.values()
    )


def held_back(queue: "QueueNode") -> int:
    """Return the waiting jobs of a queue that only their users' limits keep from being tried."""
    found = 0
    for alike in queue.line.classes():
        waiting = [one for one in alike.entries.values() if not one.places]
        if waiting and waiting[0].lacks_allowance(waiting[0].shape.minimum, SOON):
            found += len(waiting)
    return found
