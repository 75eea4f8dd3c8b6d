"""Elastic growth: give spare GPUs to elastic jobs in order of benefit.

Idle GPUs are used if they help before the job ends. Growth inside quota reclaims like a waiting job; above
quota it takes idle GPUs, or surplus from queues above their fair share. Between queues the one with the
lowest (held + 1) / share is next; inside a queue the job with the highest value of one more GPU, by its
ladder.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.placement.gang_placement import PLANNED, place
from grus.scheduler.preempt.epoch_windows import resizes_from_zero
from grus.scheduler.preempt.preemption import make_room
from grus.scheduler.preempt.reclaim_eligibility import CapacityRequest, inside
from grus.scheduler.queues.nomination import behind_preemptor
from grus.scheduler.queues.ordering import giving_key
from grus.scheduler.queues.user_limits import held_back
from grus.scheduler.state.node_capacity_index import NOW, SOON

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.queues.ordering import Age
    from grus.scheduler.queues.queue_usage_tree import QueueNode
    from grus.scheduler.state.job_entry import Entry


PROMPT = 300.0
"""Seconds: growth that pays within them is not delayed."""
LATER = 1e-9
"""Weight of growth that pays only later, relative to growth that pays soon."""


def grow(cycle: "Cycle", by_quota: bool) -> None:
    """Give GPUs to elastic jobs, a step at a time, until no job can use another.

    `by_quota`: only growth inside quota, which comes before requests of others over theirs.
    """
    growing = {queue: _climbers(cycle, entries) for queue, entries in _candidates(cycle, by_quota).items()}
    line = [(giving_key(queue, by_quota, GPU), number, queue) for number, queue in enumerate(growing)]
    heapify(line)
    while line:
        key, number, queue = heappop(line)
        present = giving_key(queue, by_quota, GPU)
        if present > key:
            heappush(line, (present, number, queue))
            continue
        if _room(cycle, queue, by_quota) and _grow_one(cycle, growing[queue], by_quota):
            heappush(line, (giving_key(queue, by_quota, GPU), number, queue))


def _room(cycle: "Cycle", queue: "QueueNode", by_quota: bool) -> bool:
    """Check cheaply whether growth in this queue could find anything at all."""
    if queue.without_gpu:
        return True
    if by_quota:
        return queue.held[SOON] < queue.quota and _all_seated(cycle, queue)
    return cycle.pool.free[SOON] > 0 or queue.held[SOON] < queue.share


def _candidates(cycle: "Cycle", by_quota: bool) -> "dict[QueueNode, list[Entry]]":
    found: dict[QueueNode, list[Entry]] = {}
    for leaf in cycle.tree.leaves:
        if leaf.elastic and _room(cycle, leaf, by_quota):
            growing = [entry for entry in leaf.elastic.values() if _may_grow(cycle, entry)]
            if growing:
                found[leaf] = growing
    for entry in cycle.newcomers:
        planned = any(place.born == PLANNED for place in entry.places)
        if can_grow(entry) and not planned and entry.id not in entry.queue.running:
            found.setdefault(entry.queue, []).append(entry)
    return found


def _may_grow(cycle: "Cycle", entry: "Entry") -> bool:
    """Return whether it may grow now: not if it has just made room for another, or is about to, or could not
    fill its placements.
    """
    if (
        not can_grow(entry)
        or entry.job.phase is not Phase.RUNNING
        or entry in cycle.victims
        or behind_preemptor(cycle, entry)
        or _loses_by_growth(cycle, entry)
    ):
        return False
    if entry.job.not_before > cycle.now:
        cycle.wake(entry.job.not_before)
        return False
    return True


def _loses_by_growth(cycle: "Cycle", entry: "Entry") -> bool:
    """Return True if growth restarts it from zero, and neither its measured speed nor a user shows that this
    is wanted.
    """
    if entry.outlook is not None or not resizes_from_zero(entry):
        return False
    wanted = entry.job.size
    return wanted is None or present_size(cycle, entry) >= wanted.low


def can_grow(entry: "Entry") -> bool:
    return entry.running and entry.shape.elastic >= 0 and entry.shape.next_size(entry.size) is not None


Climber = tuple[float, "Age", int, "Entry"]
"""Candidate for growth: the gain per replica (negative, for the heap), the age, older first, the size to
reach, and the entry.
"""


def _climbers(cycle: "Cycle", entries: "list[Entry]") -> list[Climber]:
    """Return the jobs of a queue that gain by growing, steepest first."""
    found = [climber for entry in entries if (climber := _climber(cycle, entry)) is not None]
    heapify(found)
    return found


def _climber(cycle: "Cycle", entry: "Entry") -> Climber | None:
    present = present_size(cycle, entry)
    step = cycle.snapshot.ladder(entry, present).up(entry.size)
    if step is not None:
        return (-step.each, entry.age, step.size, entry)
    later = cycle.snapshot.ladder(entry, present, idle=True).up(entry.size)
    if later is None or _too_soon(cycle, entry, present, later.size):
        return None
    # Behind all whose growth pays soon: GPUs that they gain by a trade must not be given to this one first.
    return (-LATER * later.each, entry.age, later.size, entry)


def _too_soon(cycle: "Cycle", entry: "Entry", present: int, size: int) -> bool:
    """Return True if an expensive change follows the last one so closely that the GPUs may be taken back
    before it has paid: the job must have kept its size for as long as the change takes to pay.
    """
    outlook = entry.weighed(present)
    if outlook is None or present == 0 or (payback := outlook.payback(present, size)) <= PROMPT:
        return False
    until = entry.unchanged_since + payback
    if until > cycle.now and until < inf:
        cycle.wake(until)
    return until > cycle.now


def _partly(cycle: "Cycle", entry: "Entry", size: int) -> Climber | None:
    """Take the first part of a step that has no room as a whole, if that alone gains something."""
    present = present_size(cycle, entry)
    each = cycle.snapshot.ladder(entry, present).loss(size, entry.size)
    if each > 0:
        return (-each, entry.age, size, entry)
    each = LATER * cycle.snapshot.ladder(entry, present, idle=True).loss(size, entry.size)
    if each <= 0 or _too_soon(cycle, entry, present, size):
        return None
    return (-each, entry.age, size, entry)


def present_size(cycle: "Cycle", entry: "Entry") -> int:
    """Return its replicas outside this cycle's plans; 0 for one that only starts."""
    before = cycle.transaction.touched.get(entry)
    if before is None:
        return entry.size
    return sum(1 for place in before.places if place.part == entry.shape.elastic)


def _grow_one(cycle: "Cycle", climbers: list[Climber], by_quota: bool) -> bool:
    """Grow one job of the queue by one step; return False when none of them can have one."""
    while climbers:
        _, _, size, entry = heappop(climbers)
        following = entry.shape.next_size(entry.size)
        if following is None:
            continue
        if _step(cycle, entry, size, by_quota):
            if (climber := _climber(cycle, entry)) is not None:
                heappush(climbers, climber)
            return True
        if size > following and (partly := _partly(cycle, entry, following)) is not None:
            heappush(climbers, partly)
    return False


def growth(entry: "Entry", size: int, owed: bool) -> CapacityRequest:
    """Return the request to grow to a size."""
    shape = entry.shape
    counts = [0] * len(shape.parts)
    counts[shape.elastic] = size - entry.size
    amount = counts[shape.elastic] * shape.parts[shape.elastic].unit
    return CapacityRequest(entry, shape, counts, amount, minimum=False, owed=owed)


def _step(cycle: "Cycle", entry: "Entry", size: int, by_quota: bool) -> bool:
    asking = growth(entry, size, owed=by_quota)
    if by_quota and not _inside(cycle, asking):
        return False
    if _take_idle(cycle, asking):
        return True
    if by_quota or entry.queue.held[SOON] + asking.amount <= entry.queue.share:
        return make_room(cycle, asking)
    return False


def _take_idle(cycle: "Cycle", asking: CapacityRequest) -> bool:
    """Place it on GPUs that are idle now, or at least plan it on those that will be."""
    entry, queue = asking.entry, asking.queue
    born = entry.generation + 1 if entry.id in queue.running else 1
    if entry.breaks(asking.amount, cycle.capacity, SOON):
        return False
    for horizon, generation in ((NOW, born), (SOON, PLANNED)):
        if horizon == NOW and entry.breaks(asking.amount, cycle.capacity, NOW):
            continue
        if horizon == SOON and entry.id not in queue.running:
            return False  # It has not even started: it takes the free GPUs, and grows when more are free.
        places = place(cycle.transaction, asking.shape, asking.counts, horizon, generation, entry.places)
        if places is not None:
            cycle.transaction.seat(entry, tuple(places), now=horizon == NOW)
            return True
    return False


def _inside(cycle: "Cycle", asking: CapacityRequest) -> bool:
    return inside(asking.queue, asking, cycle.pool) and _all_seated(cycle, asking.queue)


def _all_seated(cycle: "Cycle", queue: "QueueNode") -> bool:
    """Return whether all minima of its queue are placed: only then surplus is inside quota; jobs that wait
    only for a user's limit do not count.
    """
    waiting = queue.line.count - cycle.seated.get(queue, 0)
    return waiting <= 0 or (bool(cycle.snapshot.allowances) and waiting <= held_back(queue))
