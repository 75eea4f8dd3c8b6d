"""Snapshot of the scheduler: the pool, the queues, and every job that runs or waits.

Lives as long as the control loop and is kept up to date job by job (`put`), never read again as a whole. Free
capacity is derived from the placements recorded on jobs. `decide` changes the snapshot only tentatively and
restores it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import HOLDING, Desired, Job, PauseCause, Phase
from grus.model.nodes import Health, Node
from grus.model.queues import DEFAULT_QUEUE, Queue
from grus.model.resources import GPU
from grus.scheduler.elasticity.throughput_outlook import Ladder, Outlook, unknown
from grus.scheduler.placement.fragmentation import Mix
from grus.scheduler.placement.gang_placement import Place
from grus.scheduler.queues.policies import GRUS, Policy
from grus.scheduler.queues.queue_usage_tree import QueueNode, Tree
from grus.scheduler.queues.user_limits import Allowance, UserLimits
from grus.scheduler.state.gpu_footprint import Footprint
from grus.scheduler.state.job_entry import Entry, count_entry
from grus.scheduler.state.node_capacity_index import NOW, SOON, Pool
from grus.scheduler.state.request_shapes import Compiler, Shape


class NoopDecision(NamedTuple):
    """Decision to do nothing, and its premises besides the jobs, the pool and the queues."""

    wake_at: float | None
    shares: int
    """Value of `Tree.shares` when it was made."""


class Snapshot:
    """Snapshot: the state that `decide` works on."""

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        queues: Iterable[Queue] = (),
        jobs: Iterable[Job] = (),
        policy: Policy = GRUS,
    ) -> None:
        self.policy = policy
        self.outlooks: dict[JobId, Outlook] = {}
        self.tags: dict[JobId, Tag] = {}
        self.footprints: dict[JobId, Footprint] = {}
        """Footprints of jobs that may share a GPU."""
        self.typed: dict[JobId, Entry] = {}
        """Waiting jobs whose speeds by type of GPU are known."""
        self._unmeasured: dict[tuple[int, ...], Ladder] = {}
        """Ladders of jobs without measurements: one for all with the same sizes."""
        self.nodes = tuple(nodes)
        self.queue_list = tuple(queues)
        self.user_limits: dict[UserName, int] = {}
        """Limits of users in micro-GPUs, for those who have one."""
        self._clear()
        self._build()
        for job in jobs:
            self.put(job)

    def _clear(self) -> None:
        self.entries: dict[JobId, Entry] = {}
        self.broken: dict[JobId, Entry] = {}
        """Running jobs with a device that is gone or unhealthy."""
        self.backfilled: dict[JobId, Entry] = {}
        """Running jobs that were backfilled past a reservation."""
        self.nominated: dict[JobId, set[JobId]] = {}
        """Jobs for whom others were paused or shrunk, with those: the GPUs that these leave are meant for
        them.
        """
        self.going: dict[JobId, Entry] = {}
        """Jobs with placements that are being left."""
        self.packed: dict[JobId, Entry] = {}
        """Running jobs that have a part of a GPU which they requested whole."""
        self.limited: dict[JobId, Entry] = {}
        """Running jobs whose end is known."""
        self._delayed: list[tuple[float, str]] = []
        self.settled: NoopDecision | None = None
        """Last decision if it was to do nothing, until a relevant event."""

    def _build(self) -> None:
        self._empty: Snapshot | None = None
        self.never_fits_cache: dict[object, str] = {}
        """Answers of `feasibility.never_fits` for this pool and these queues."""
        self.pool = Pool(self.nodes)
        self.allowances = {user: Allowance(limit) for user, limit in self.user_limits.items()}
        self.tree = Tree(self.queue_list)
        self.tree.set_capacity(self.pool.capacity)
        self._compiler = Compiler(self.pool)
        self.mix = Mix(self.pool)
        """Mix of requests of the jobs that run or wait."""
        self._assign_nodes()

    def _assign_nodes(self) -> None:
        """Close nodes that one queue names to all but its branch."""
        named = {queue: self._bits(queue.own_nodes) for queue in self.tree.all() if queue.own_nodes}
        everything = (1 << len(self.pool.nodes)) - 1
        for queue in self.tree.all():
            foreign = 0
            for owner, bits in named.items():
                if owner not in queue.path and queue not in owner.path:
                    foreign |= bits
            queue.nodes = everything & ~foreign

    def _bits(self, names: Iterable[str]) -> int:
        wanted = set(names)
        return sum(node.bit for node in self.pool.nodes if node.id in wanted)

    # -------------------------------------------------------------------------------------------- updates

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Take note of a changed pool. Costs as much as a rebuild of the snapshot."""
        self.nodes = tuple(nodes)
        self._rebuild()

    def set_queues(self, queues: Iterable[Queue]) -> None:
        """Take note of changed queues. Costs as much as a rebuild of the snapshot."""
        self.queue_list = tuple(queues)
        self._rebuild()

    def set_user_limits(self, limits: UserLimits) -> None:
        """Take note of changed limits of users. Costs as much as a rebuild of the snapshot."""
        if dict(limits) != self.user_limits:
            self.user_limits = dict(limits)
            self._rebuild()

    def _rebuild(self) -> None:
        old = sorted(self.entries.values(), key=lambda entry: entry.age)
        last_starts = {node.name: node.last_start for node in self.tree.by_name.values()}
        self._clear()
        self._build()
        for name, last_start in last_starts.items():
            if name in self.tree.by_name:
                self.tree.by_name[name].last_start = last_start
        for entry in old:
            self.put(entry.job, entry.blocked)

    def put(self, job: Job, blocked: str = "") -> None:
        """Insert or replace a job; one in a terminal phase that holds nothing is removed."""
        old = self.entries.pop(job.id, None)
        if old is not None:
            self._detach(old)
        if job.terminal and not job.seats:
            self.outlooks.pop(job.id, None)
            self.tags.pop(job.id, None)
            self.footprints.pop(job.id, None)
            return
        queue = self.queue_of(job.spec.queue)
        if job.started_at is not None:
            for level in queue.path:
                level.last_start = max(level.last_start, (job.started_at, 0))
        if old is not None and old.job.spec is job.spec and old.job.size == job.size:
            shape = old.shape
        else:
            shape = self._compiler.shape(job, queue.nodes)
        known = (self.outlooks.get(job.id), self.tags.get(job.id))
        entry = Entry(job, queue, shape, blocked, self.policy, *known)
        entry.allowance = self.allowances.get(job.user)
        self.entries[job.id] = entry
        self.mix.count(entry.shape, 1)
        if job.made_room_for is not None:
            self.settled = None
            self.nominated.setdefault(job.made_room_for, set()).add(job.id)
        if job.phase in HOLDING or job.seats:
            self._seat(entry)
        elif waits(job) and not blocked:
            if job.not_before > 0.0:
                entry.delayed = True
                heappush(self._delayed, (job.not_before, job.id))
            else:
                self._enqueue(entry)

    def expect(self, job: JobId, outlook: Outlook | None) -> None:
        """Take note of a job's outlook; None if it is no longer known."""
        entry = self.entries.get(job)
        if entry is None or entry.outlook == outlook:
            return
        if outlook is None:
            self.outlooks.pop(job, None)
        else:
            self.outlooks[job] = outlook
        self.put(entry.job, entry.blocked)

    def note(self, job: JobId, tag: Tag | None) -> None:
        """Take note of a job's tag; None when no valid tag exists any more."""
        entry = self.entries.get(job)
        if entry is None or entry.tag == tag:
            return
        if tag is None:
            self.tags.pop(job, None)
        else:
            self.tags[job] = tag
        entry.tag = tag
        self.settled = None

    def gauge(self, job: JobId, footprint: Footprint | None) -> None:
        """Take note of the footprint of a job that may share a GPU; None if it is unknown."""
        entry = self.entries.get(job)
        if entry is None or not entry.shape.shares or self.footprints.get(job) == footprint:
            return
        if footprint is None:
            del self.footprints[job]
        else:
            self.footprints[job] = footprint
        self.settled = None

    def ladder(self, entry: Entry, present: int, idle: bool = False) -> Ladder:
        """Return the value of each size of a job when it has so many replicas: taken from others, or idle."""
        outlook = entry.weighed(present)
        if outlook is None and not self.policy.by_age:
            sizes = entry.shape.sizes
            if sizes not in self._unmeasured:
                self._unmeasured[sizes] = self.policy.ladder(entry.job, unknown(sizes), 0)
            return self._unmeasured[sizes]
        made = entry.ladders.get(idle)
        if made is None or made[0] != present:
            known = unknown(entry.shape.sizes) if outlook is None else outlook
            ladder = self.policy.ladder(entry.job, known.among(entry.shape.sizes), present, idle)
            made = entry.ladders[idle] = (present, ladder)
        return made[1]

    def queue_of(self, name: QueueName) -> QueueNode:
        found = self.tree.by_name.get(name)
        if found is None or not found.leaf:
            # Jobs of a queue that was deleted, or became a branch, count for the default one.
            found = self.tree.by_name.get(DEFAULT_QUEUE) or self.tree.leaves[0]
        return found

    def job(self, job: JobId) -> Job | None:
        entry = self.entries.get(job)
        return entry.job if entry else None

    def advance(self, now: float) -> None:
        """Put jobs whose back-off has passed in line."""
        while self._delayed and self._delayed[0][0] <= now:
            entry = self._still_delayed(*heappop(self._delayed))
            if entry is not None:
                entry.delayed = False
                self._enqueue(entry)
        while self._delayed and self._still_delayed(*self._delayed[0]) is None:
            heappop(self._delayed)

    def next_release(self) -> float | None:
        """Return the time when the next back-off passes; call after `advance`."""
        return self._delayed[0][0] if self._delayed else None

    def delayed(self, until: float) -> list[Entry]:
        """Return jobs that wait for their back-off to pass, and no longer than that."""
        found = (self._still_delayed(at, job) for at, job in self._delayed if at <= until)
        return list({entry.id: entry for entry in found if entry is not None}.values())

    def _still_delayed(self, at: float, job: str) -> Entry | None:
        """Return the job that waits for this moment, if it still does: it may have been stopped or changed
        since.
        """
        entry = self.entries.get(JobId(job))
        return entry if entry is not None and entry.delayed and entry.job.not_before == at else None

    def _enqueue(self, entry: Entry) -> None:
        entry.waiting = True
        alike = entry.queue.line.add(entry)
        if entry.outlook is not None and entry.outlook.types:
            self.typed[entry.id] = entry
        self._demand(entry, 1)
        if alike.ages[0] == entry.age or entry.job.started_at is not None:
            self.settled = None  # Else the first with the same request was tried in vain: so is this.

    def still_settled(self, now: float) -> bool:
        """Return whether a decision would again be to do nothing, after all that has happened since the last
        one.
        """
        settled = self.settled
        if settled is None or (settled.wake_at is not None and settled.wake_at <= now):
            return False
        self.tree.share_out(self.pool.capacity)
        return self.tree.shares == settled.shares

    def _seat(self, entry: Entry) -> None:
        self.settled = None
        job = entry.job
        told = job.phase is Phase.PAUSING or job.terminal or job.desired is not Desired.RUN
        going = told or not job.staying
        parts = {part.role: i for i, part in enumerate(entry.shape.parts)}
        staying: list[Place] = []
        leaving: list[Place] = []
        for seat in job.seats:
            devices = [self.pool.by_id[d] for d in seat.devices if d in self.pool.by_id]
            if len(devices) < len(seat.devices):
                entry.broken = next(d for d in seat.devices if d not in self.pool.by_id)
            for device in devices:
                if not device.healthy:
                    entry.broken = device.id
            node = self.pool.node_by_id.get(seat.node)
            if node is None:
                entry.broken = entry.broken or seat.node
                continue
            place = Place(parts.get(seat.role, 0), seat.index, node, tuple(devices), seat.share, seat.born)
            (leaving if going or seat.leaving else staying).append(place)
        entry.places = tuple(staying)
        entry.leaving = tuple(leaving)
        entry.running = not going and job.phase in HOLDING
        entry.measure()
        if going:
            entry.broken = ""
        if entry.running:
            self._run(entry)
            self._demand(entry, 1)
        if entry.leaving:
            self.going[entry.id] = entry
        self._occupy(entry, 1)

    def _run(self, entry: Entry) -> None:
        queue = entry.queue
        queue.new_version()
        queue.running[entry.id] = entry
        queue.priorities[entry.priority] = queue.priorities.get(entry.priority, 0) + 1
        if entry.shape.elastic >= 0:
            queue.elastic[entry.id] = entry
            queue.without_gpu += entry.shape.grows_without_gpu
        if entry.broken:
            self.broken[entry.id] = entry
        if entry.backfill_until is not None:
            self.backfilled[entry.id] = entry
        if entry.job.spec.max_runtime is not None:
            self.limited[entry.id] = entry
        if entry.shape.shares and len(entry.places) == 1 and 0 < entry.held < GPU:
            self.packed[entry.id] = entry

    def _end_run(self, entry: Entry) -> None:
        queue = entry.queue
        queue.new_version()
        del queue.running[entry.id]
        if queue.elastic.pop(entry.id, None) is not None:
            queue.without_gpu -= entry.shape.grows_without_gpu
        self.broken.pop(entry.id, None)
        self.backfilled.pop(entry.id, None)
        self.limited.pop(entry.id, None)
        self.packed.pop(entry.id, None)
        queue.priorities[entry.priority] -= 1
        if not queue.priorities[entry.priority]:
            del queue.priorities[entry.priority]

    def _occupy(self, entry: Entry, sign: int) -> None:
        """Count (1) or stop counting (-1) everything that the entry holds."""
        for place in entry.places:
            self._shift(entry, place, -sign, (NOW, SOON))
        for place in entry.leaving:
            self._shift(entry, place, -sign, (NOW,))
        going = sum(place.held for place in entry.leaving)
        entry.shift(sign * (entry.held + going), NOW)
        entry.shift(sign * entry.held, SOON)
        count_entry(entry, sign)

    def _shift(self, entry: Entry, place: Place, sign: int, horizons: tuple[int, ...]) -> None:
        part = entry.shape.parts[place.part]
        for horizon in horizons:
            for device in place.devices:
                self.pool.shift(device, sign * place.share, horizon)
            if part.cpu and place.node.cpu is not None:
                place.node.cpu[horizon] += sign * part.cpu
            if part.memory and place.node.memory is not None:
                place.node.memory[horizon] += sign * part.memory

    def _demand(self, entry: Entry, sign: int) -> None:
        queue, shape = entry.queue, entry.shape
        queue.stale = True
        most = max(shape.maximum, entry.held)
        if entry.allowance is not None and not entry.never:
            queue.demand += queue.limited_demand(entry.user, sign * most, entry.allowance.limit)
            return
        if entry.never:
            queue.never_demand += sign * shape.minimum
            queue.demand += sign * (most - shape.minimum)
        else:
            queue.demand += sign * most

    def _detach(self, entry: Entry) -> None:
        self.settled = None
        self.mix.count(entry.shape, -1)
        preemptor = entry.job.made_room_for
        if preemptor is not None:
            self.nominated[preemptor].discard(entry.id)
            if not self.nominated[preemptor]:
                del self.nominated[preemptor]
        if entry.waiting:
            entry.queue.line.remove(entry)
            self.typed.pop(entry.id, None)
            self._demand(entry, -1)
        if entry.running:
            self._end_run(entry)
            self._demand(entry, -1)
        if entry.places or entry.leaving:
            self._occupy(entry, -1)
            self.going.pop(entry.id, None)

    # ------------------------------------------------------------------------------------------- reading

    def waiting(self) -> Iterator[Entry]:
        """Yield every job that waits in line, in no particular order."""
        for leaf in self.tree.leaves:
            for found in leaf.line.classes():
                yield from found.entries.values()

    def holders(self) -> Iterator[Entry]:
        """Yield every job that holds something."""
        return (entry for entry in self.entries.values() if entry.places or entry.leaving)

    def compile(self, job: Job) -> Shape:
        """Return the shape that a job would have."""
        return self._compiler.shape(job, self.queue_of(job.spec.queue).nodes)

    def reordered(self, shape: Shape, kinds: tuple[int, ...]) -> Shape:
        """Return the shape with its kinds of device in this order of preference."""
        return self._compiler.reordered(shape, kinds)

    def empty(self) -> "Snapshot":
        """Return the same pool with all its devices healthy and unallocated, and the same queues."""
        if self._empty is None:
            sound = [
                replace(
                    node,
                    cordoned=False,
                    drain=None,
                    devices=tuple(replace(d, health=Health.HEALTHY, outside="") for d in node.devices),
                )
                for node in self.nodes
            ]
            self._empty = Snapshot(sound, self.queue_list, policy=self.policy)
        return self._empty


def waits(job: Job) -> bool:
    """Return whether a job would take GPUs if it got them."""
    if job.desired is not Desired.RUN:
        return False
    return job.phase is Phase.PENDING or (job.phase is Phase.PAUSED and job.paused_by is PauseCause.SCHEDULER)
