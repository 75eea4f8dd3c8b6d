"""Gang reservation: the first big gang that is blocked gets one, so that small jobs cannot pass it without
end.

When the ends of running jobs are known (`max_runtime`), the reservation is due when enough of them have
ended, and jobs that end before may pass (backfill). If ends are unknown it begins after ten minutes of
waiting, and nothing passes. GPUs are held back from all but requests inside quota, which were served before.
"""

from itertools import islice
from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduler.placement.gang_placement import Place, place
from grus.scheduler.preempt.reclaim_eligibility import PATIENCE, CapacityRequest
from grus.scheduler.state.node_capacity_index import SOON, DeviceState

if TYPE_CHECKING:
    from grus.scheduler.cycle import Cycle
    from grus.scheduler.state.job_entry import Entry


class Reservation:
    """Reservation: free GPUs held for one waiting gang in this cycle."""

    def __init__(self, owner: "Entry", due: float, devices: list[DeviceState]) -> None:
        self.owner = owner
        self.due = due
        self._devices = devices

    @classmethod
    def make(cls, cycle: "Cycle", asking: CapacityRequest) -> "Reservation | None":
        """Hold what the gang can use of the free GPUs, if its reservation has started."""
        due = due_at(cycle, asking)
        if due is None:
            return None
        held = _free_devices(cycle, asking)
        for device in held:
            cycle.transaction.take(device, GPU)
        return cls(asking.entry, due, held)

    def place_inside(
        self, cycle: "Cycle", asking: CapacityRequest, horizon: int, born: int
    ) -> list[Place] | None:
        """Place a backfilled job on GPUs that are held back."""
        for device in self._devices:
            cycle.transaction.take(device, -GPU)
        found = place(cycle.transaction, asking.shape, asking.counts, horizon, born)
        self._devices = [device for device in self._devices if device.free[SOON] == GPU]
        for device in self._devices:
            cycle.transaction.take(device, GPU)
        return found


def due_at(cycle: "Cycle", asking: CapacityRequest) -> float | None:
    """Return the time when a blocked gang's reservation is due: when enough will have ended, now after ten
    minutes of waiting if ends are unknown, and None before that or when the pool cannot hold it at all.
    """
    if not asking.shape.possible:
        return None
    return _due(cycle, asking, known_end(cycle, asking))


def due_in_quota(cycle: "Cycle", asking: CapacityRequest) -> float | None:
    """Return the same for its own queue, whose quota it fits: when enough of that will be free. What others
    hold of it meanwhile can be taken back, and so makes no difference.
    """
    queue = asking.queue
    room = queue.quota_room() + queue.surplus
    if not asking.shape.possible or room >= asking.amount:
        return due_at(cycle, asking)
    for end, entry in _ends(cycle):
        room += entry.held_minimum if entry.queue is queue else 0
        if room >= asking.amount:
            return end
    return _due(cycle, asking, None)


def _due(cycle: "Cycle", asking: CapacityRequest, end: float | None) -> float | None:
    begin = asking.entry.job.submitted_at + PATIENCE
    if end is not None:
        return end
    if begin > cycle.now:
        cycle.wake(begin)
        return None
    return cycle.now


def passes(cycle: "Cycle", asking: CapacityRequest, due: float) -> bool:
    """Return whether a job is sure to end before a reservation is due."""
    runtime = asking.entry.job.spec.max_runtime
    return runtime is not None and cycle.now + runtime <= due


def known_end(cycle: "Cycle", asking: CapacityRequest) -> float | None:
    """Return the time when enough of the running jobs will have ended for the gang to fit, by count; None if
    unknown.
    """
    kinds = asking.shape.kinds
    need = asking.amount
    if asking.shape.one_node:
        return _one_node_end(cycle, asking, kinds)
    shape = asking.shape
    free = [cycle.pool.whole_free_of(group, shape.nodes, SOON) * GPU for group in shape.groups]
    for end, entry in _ends(cycle):
        for number, group in enumerate(shape.groups):
            free[number] += sum(p.held for p in entry.places if p.node.bit & shape.nodes and _of(p, group))
            if free[number] >= need:
                return end
    return None


def _one_node_end(cycle: "Cycle", asking: CapacityRequest, kinds: frozenset[int]) -> float | None:
    free: dict[int, int] = {}
    for end, entry in _ends(cycle):
        for p in entry.places:
            if p.node.bit & asking.shape.nodes and _of(p, kinds):
                start = sum(p.node.counts[SOON].get(kind, 0) for kind in kinds) * GPU
                free[p.node.index] = free.get(p.node.index, start) + p.held
                if free[p.node.index] >= asking.amount:
                    return end
    return None


def _of(place: Place, kinds: frozenset[int]) -> bool:
    return bool(place.devices) and place.devices[0].kind in kinds


def _ends(cycle: "Cycle") -> list[tuple[float, "Entry"]]:
    ends = [
        (entry.started_at + entry.job.spec.max_runtime, entry)
        for entry in cycle.snapshot.limited.values()
        if entry.running and entry.job.spec.max_runtime is not None
    ]
    return sorted(ends, key=lambda item: (item[0], item[1].id))


def _free_devices(cycle: "Cycle", asking: CapacityRequest) -> list[DeviceState]:
    """Return free GPUs that the gang could use, of the type with most: of the roomiest node if it needs one,
    else as many as it needs.
    """
    pool, shape = cycle.pool, asking.shape
    kinds = max(shape.groups, key=lambda group: pool.whole_free_of(group, shape.nodes, SOON))
    nodes = pool.having(kinds, asking.shape.nodes, SOON)
    if asking.shape.one_node:
        nodes = pool.roomiest(kinds, nodes, SOON)
    free = (
        device
        for node in pool.each(nodes)
        for device in node.devices
        if device.open and device.kind in kinds and device.free[SOON] == GPU
    )
    return list(islice(free, -(-asking.amount // GPU)))
