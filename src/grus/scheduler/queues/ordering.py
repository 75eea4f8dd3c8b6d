"""Queue order: inside a queue by priority, then the users' shares, then age; between queues by holdings.

Waiting jobs that are alike (same priority, user, shape and time limit) form a class. When one of a class
cannot start, none of it can, so a cycle costs the number of classes, not of jobs.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from grus.model.identifiers import UserName

if TYPE_CHECKING:
    from grus.scheduler.queues.queue_usage_tree import QueueNode
    from grus.scheduler.state.job_entry import Entry
    from grus.scheduler.state.request_shapes import Shape

Alike = tuple[int, float | None]
"""Shape and `max_runtime`: jobs that share these can start in the same situations."""
Age = tuple[float, str]
"""Submit time, then id: the oldest first, and the same order in every run."""


class RequestClass:
    """Waiting jobs of one queue with the same request, oldest first."""

    __slots__ = ("ages", "entries", "group")

    def __init__(self, group: "Group") -> None:
        self.group = group
        """Group shared with the classes of other users: if one of the group cannot start, none can."""
        self.ages: list[Age] = []
        self.entries: dict[Age, Entry] = {}


Group = tuple["WaitingLine", int, Alike]
"""Group of requests: the line, the priority, and the request."""


class WaitingLine:
    """Jobs of one queue that wait for GPUs."""

    def __init__(self) -> None:
        self.count = 0
        self.levels: dict[int, dict[UserName, dict[Alike, RequestClass]]] = {}
        """Classes by priority, then user, then request."""
        self.limited = 0
        """Number of jobs that have a `max_runtime`, and so might pass a reservation."""
        self.shapes: dict[Shape, int] = {}
        """Number of jobs that request each shape."""
        self.least = 0
        """The smallest minimum of these, in micro-GPUs."""

    def add(self, entry: "Entry") -> RequestClass:
        """Add a waiting job; return the class that it belongs to."""
        users = self.levels.setdefault(entry.priority, {})
        shapes = users.setdefault(entry.user, {})
        found = shapes.get(entry.alike)
        if found is None:
            found = shapes[entry.alike] = RequestClass((self, entry.priority, entry.alike))
        self.limited += entry.alike[1] is not None
        self.shapes[entry.shape] = self.shapes.get(entry.shape, 0) + 1
        if self.shapes[entry.shape] == 1:
            self._find_least()
        insort(found.ages, entry.age)
        found.entries[entry.age] = entry
        self.count += 1
        return found

    def remove(self, entry: "Entry") -> None:
        users = self.levels[entry.priority]
        shapes = users[entry.user]
        found = shapes[entry.alike]
        del found.ages[bisect_left(found.ages, entry.age)]
        del found.entries[entry.age]
        self.count -= 1
        self.limited -= entry.alike[1] is not None
        self.shapes[entry.shape] -= 1
        if not self.shapes[entry.shape]:
            del self.shapes[entry.shape]
            self._find_least()
        if not found.ages:
            del shapes[entry.alike]
            if not shapes:
                del users[entry.user]
                if not users:
                    del self.levels[entry.priority]

    def _find_least(self) -> None:
        self.least = min((shape.minimum for shape in self.shapes), default=0)

    def classes(self) -> Iterator[RequestClass]:
        for users in self.levels.values():
            for shapes in users.values():
                yield from shapes.values()

    def top_priority(self) -> int:
        return max(self.levels)


class Turn:
    """One walk down a queue's line. The user who holds least is next; after each start the order is computed
    again.
    """

    def __init__(
        self,
        node: "QueueNode",
        started: dict[RequestClass, int],
        blocked: Container[Group],
        by_user: bool = True,
    ) -> None:
        self._node = node
        self._users = node.users if by_user else {}
        """Holdings of each user; empty if they make no difference."""
        self._started = started
        """Progress of the cycle in each class: all before have been placed."""
        self._blocked = blocked
        """Groups tried in vain in this cycle."""
        self._skip: set[RequestClass | Group] = set()
        self._levels = iter(sorted(node.line.levels, reverse=True))
        self._heap: list[tuple[int, Age, UserName, list[RequestClass]]] = []

    def next(self) -> "tuple[RequestClass, Entry] | None":
        """Return the job whose turn it is; the same again until its class is skipped or it is counted as
        started.
        """
        while True:
            while self._heap:
                held, age, user, classes = self._heap[0]
                first = self._oldest(classes)
                if first is None:
                    heappop(self._heap)
                    continue
                present = (self._users.get(user, 0), first[0], user, classes)
                if (held, age) != present[:2]:
                    heapreplace(self._heap, present)
                    continue
                return first[1], first[1].entries[first[0]]
            level = next(self._levels, None)
            if level is None:
                return None
            self._enter(level)

    def skip(self, found: RequestClass | Group) -> None:
        """Skip the rest of this class, or of the classes of all users with the same request."""
        self._skip.add(found)

    def _enter(self, level: int) -> None:
        for user, shapes in self._node.line.levels[level].items():
            classes = list(shapes.values())
            first = self._oldest(classes)
            if first is not None:
                self._heap.append((self._users.get(user, 0), first[0], user, classes))
        heapify(self._heap)

    def _oldest(self, classes: list[RequestClass]) -> tuple[Age, RequestClass] | None:
        best: tuple[Age, RequestClass] | None = None
        for found in classes:
            if found.group in self._blocked or found.group in self._skip or found in self._skip:
                continue
            at = self._started.get(found, 0)
            while at < len(found.ages) and found.entries[found.ages[at]].places:
                at = self._started[found] = at + 1
            if at < len(found.ages) and (best is None or found.ages[at] < best[0]):
                best = (found.ages[at], found)
        return best


Key = tuple[tuple[float, tuple[float, int], str], ...]


def giving_key(node: "QueueNode", by_quota: bool, one: int) -> Key:
    """Return the sort key of a queue, lowest first: (held + 1) / share at each level from the top; ties by
    longest since a start, name.

    A share of zero counts as an infinite ratio.
    """
    key = []
    for level in node.path[1:]:
        share = level.quota if by_quota else level.exact
        ratio = (level.held[1] + one) / share if share > 0 else float("inf")
        key.append((ratio, level.last_start, level.name))
    return tuple(key)
