"""Spare GPUs to elastic jobs: who gets the next one.

Growth inside quota reclaims like a waiting job; above quota it takes what is idle, or surplus from queues
above their fair share. Between queues the one with the lowest (held + 1) / share is next; inside a queue the
rule is `next_to_grow`, the place where a model of what a GPU buys comes in: for now the smallest job grows.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduling.gang import PLANNED, place
from grus.scheduling.ordering import giving_key
from grus.scheduling.preemption import make_room
from grus.scheduling.rights import Asking, inside
from grus.scheduling.topology import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduling.cycle import Cycle
    from grus.scheduling.quota import QueueNode
    from grus.scheduling.snapshot import Entry


def next_to_grow(candidates: "list[Entry]") -> "Entry":
    """Equal marginal value: the smallest job is next, then the oldest."""
    return min(candidates, key=lambda entry: (entry.held, entry.age))


def grow(cycle: "Cycle", by_quota: bool) -> None:
    """Hand GPUs to elastic jobs, a step at a time, until nobody can use another.

    `by_quota`: only growth inside quota, which is due before what others ask for over theirs.
    """
    growing = _candidates(cycle)
    line = [(giving_key(queue, by_quota, GPU), number, queue) for number, queue in enumerate(growing)]
    heapify(line)
    while line:
        key, number, queue = heappop(line)
        present = giving_key(queue, by_quota, GPU)
        if present > key:
            heappush(line, (present, number, queue))
            continue
        if _grow_one(cycle, growing[queue], by_quota):
            heappush(line, (giving_key(queue, by_quota, GPU), number, queue))


def _candidates(cycle: "Cycle") -> "dict[QueueNode, list[Entry]]":
    found: dict[QueueNode, list[Entry]] = {}
    for leaf in cycle.tree.leaves:
        for entry in leaf.elastic.values():
            if _may_grow(cycle, entry):
                found.setdefault(leaf, []).append(entry)
    for entry in cycle.newcomers:
        planned = any(place.born == PLANNED for place in entry.places)
        if can_grow(entry) and not planned and entry.id not in entry.queue.running:
            found.setdefault(entry.queue, []).append(entry)
    return found


def _may_grow(cycle: "Cycle", entry: "Entry") -> bool:
    """Growing now, unless it has just given way to another or is about to."""
    return (
        can_grow(entry)
        and entry.job.phase is Phase.RUNNING
        and entry not in cycle.victims
        and not cycle.behind_preemptor(entry)
    )


def can_grow(entry: "Entry") -> bool:
    return entry.running and entry.shape.elastic >= 0 and entry.shape.next_size(entry.size) is not None


def _grow_one(cycle: "Cycle", candidates: "list[Entry]", by_quota: bool) -> bool:
    """One step for one job of the queue; False when none of them can have one."""
    while candidates:
        entry = next_to_grow(candidates)
        if not can_grow(entry) or not _step(cycle, entry, by_quota):
            candidates.remove(entry)
            continue
        return True
    return False


def _step(cycle: "Cycle", entry: "Entry", by_quota: bool) -> bool:
    shape = entry.shape
    size = shape.next_size(entry.size)
    assert size is not None
    counts = [0] * len(shape.parts)
    counts[shape.elastic] = size - entry.size
    amount = counts[shape.elastic] * shape.parts[shape.elastic].unit
    asking = Asking(entry, shape, counts, amount, minimum=False, owed=by_quota)
    if by_quota and not _inside(cycle, asking):
        return False
    if _take_idle(cycle, asking):
        return True
    if by_quota or entry.queue.held[SOON] + amount <= entry.queue.share:
        return make_room(cycle, asking)
    return False


def _take_idle(cycle: "Cycle", asking: Asking) -> bool:
    """On what is idle now, or at least planned on what will be."""
    entry, queue = asking.entry, asking.queue
    born = entry.generation + 1 if entry.id in queue.running else 1
    if queue.breaks(asking.amount, cycle.capacity, SOON):
        return False
    for horizon, generation in ((NOW, born), (SOON, PLANNED)):
        if horizon == NOW and queue.breaks(asking.amount, cycle.capacity, NOW):
            continue
        if horizon == SOON and entry.id not in queue.running:
            return False  # It has not even started: it takes what is there, and grows when more is.
        places = place(cycle.transaction, asking.shape, asking.counts, horizon, generation, entry.places)
        if places is not None:
            cycle.transaction.seat(entry, tuple(places), now=horizon == NOW)
            return True
    return False


def _inside(cycle: "Cycle", asking: Asking) -> bool:
    """Surplus is inside quota only when all minima of its queue are: none may wait."""
    queue = asking.queue
    return inside(queue, asking, cycle.pool) and cycle.seated.get(queue, 0) >= queue.line.count
