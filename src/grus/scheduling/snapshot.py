"""What the scheduler knows: the pool, the queues, and every job that runs or waits.

Lives as long as the control loop and is kept up to date job by job (`put`), never read anew. What is free is
derived from the seats recorded on jobs. `decide` changes it only tentatively and leaves it as it found it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

from grus.model.cluster import Health, Node
from grus.model.identifiers import JobId, QueueName
from grus.model.jobs import HOLDING, Desired, Job, PauseCause, Phase
from grus.model.queues import DEFAULT_QUEUE, Queue
from grus.model.resources import GPU
from grus.model.tags import Tag
from grus.scheduling.entry import Entry, count_entry
from grus.scheduling.footprint import Footprint
from grus.scheduling.fragmentation import Mix
from grus.scheduling.gang import Place
from grus.scheduling.outlook import Ladder, Outlook, unknown
from grus.scheduling.policies import GRUS, Policy
from grus.scheduling.quota import QueueNode, Tree
from grus.scheduling.shapes import Compiler, Shape
from grus.scheduling.topology import NOW, SOON, Pool


class Settled(NamedTuple):
    """A decision to do nothing, and what it rests on besides the jobs, the pool and the queues."""

    wake_at: float | None
    shares: int
    """`Tree.shares` when it was made."""


class Snapshot:
    """The state that `decide` works on."""

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
        """What is known of jobs that may share a GPU."""
        self.typed: dict[JobId, Entry] = {}
        """Waiting jobs of which it is known how fast they are on types of GPU."""
        self._unmeasured: dict[tuple[int, ...], Ladder] = {}
        """Ladders of jobs that nobody measured: one for all with the same sizes."""
        self.nodes = tuple(nodes)
        self.queue_list = tuple(queues)
        self._clear()
        self._build()
        for job in jobs:
            self.put(job)

    def _clear(self) -> None:
        self.entries: dict[JobId, Entry] = {}
        self.broken: dict[JobId, Entry] = {}
        """Running jobs with a device that is gone or unhealthy."""
        self.backfilled: dict[JobId, Entry] = {}
        """Running jobs that were let past a reservation."""
        self.nominated: dict[JobId, set[JobId]] = {}
        """Jobs for whom others were paused or shrunk, with those: what these leave is meant for them."""
        self.going: dict[JobId, Entry] = {}
        """Jobs with seats that are being left."""
        self.packed: dict[JobId, Entry] = {}
        """Running jobs that have a part of a GPU which they asked for whole."""
        self.limited: dict[JobId, Entry] = {}
        """Running jobs whose end is known."""
        self._delayed: list[tuple[float, str]] = []
        self.settled: Settled | None = None
        """What the last decision was if it was to do nothing, until something happens that matters to it."""

    def _build(self) -> None:
        self._empty: Snapshot | None = None
        self.never_fits_cache: dict[object, str] = {}
        """Answers of `fitting.never_fits` for this pool and these queues."""
        self.pool = Pool(self.nodes)
        self.tree = Tree(self.queue_list)
        self.tree.set_capacity(self.pool.capacity)
        self._compiler = Compiler(self.pool)
        self.mix = Mix(self.pool)
        """What the jobs that run or wait ask for."""
        self._assign_nodes()

    def _assign_nodes(self) -> None:
        """Nodes that one queue names are closed to all but its branch."""
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

    # ------------------------------------------------------------------------------ keeping it up to date

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Take note of a changed pool. Costs as much as building the snapshot anew."""
        self.nodes = tuple(nodes)
        self._rebuild()

    def set_queues(self, queues: Iterable[Queue]) -> None:
        """Take note of changed queues. Costs as much as building the snapshot anew."""
        self.queue_list = tuple(queues)
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
        """Take note of how a job would run at other sizes; None where that is not known any more."""
        entry = self.entries.get(job)
        if entry is None or entry.outlook == outlook:
            return
        if outlook is None:
            self.outlooks.pop(job, None)
        else:
            self.outlooks[job] = outlook
        self.put(entry.job, entry.blocked)

    def note(self, job: JobId, tag: Tag | None) -> None:
        """Take note of what was recognised of a job; None when nobody vouches for it any more."""
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
        """Take note of what a job that may share a GPU takes of one; None where that is not known."""
        entry = self.entries.get(job)
        if entry is None or not entry.shape.shares or self.footprints.get(job) == footprint:
            return
        if footprint is None:
            del self.footprints[job]
        else:
            self.footprints[job] = footprint
        self.settled = None

    def ladder(self, entry: Entry, present: int, idle: bool = False) -> Ladder:
        """Worth of each size of a job when it has so many replicas: taken from others, or idle."""
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
            # A queue that was taken away, or became a branch, under its jobs: they count for the default one.
            found = self.tree.by_name.get(DEFAULT_QUEUE) or self.tree.leaves[0]
        return found

    def job(self, job: JobId) -> Job | None:
        entry = self.entries.get(job)
        return entry.job if entry else None

    def advance(self, now: float) -> None:
        """Let the jobs whose back-off has passed wait in line."""
        while self._delayed and self._delayed[0][0] <= now:
            entry = self._still_delayed(*heappop(self._delayed))
            if entry is not None:
                entry.delayed = False
                self._enqueue(entry)
        while self._delayed and self._still_delayed(*self._delayed[0]) is None:
            heappop(self._delayed)

    def next_release(self) -> float | None:
        """When the next back-off passes; to be asked after `advance`."""
        return self._delayed[0][0] if self._delayed else None

    def delayed(self, until: float) -> list[Entry]:
        """Jobs that wait for their back-off to pass, and no longer than that."""
        found = (self._still_delayed(at, job) for at, job in self._delayed if at <= until)
        return list({entry.id: entry for entry in found if entry is not None}.values())

    def _still_delayed(self, at: float, job: str) -> Entry | None:
        """The job that waits for this moment, if it still does: it may have been stopped or changed since."""
        entry = self.entries.get(JobId(job))
        return entry if entry is not None and entry.delayed and entry.job.not_before == at else None

    def _enqueue(self, entry: Entry) -> None:
        entry.waiting = True
        alike = entry.queue.line.add(entry)
        if entry.outlook is not None and entry.outlook.types:
            self.typed[entry.id] = entry
        self._demand(entry, 1)
        if alike.ages[0] == entry.age or entry.job.started_at is not None:
            self.settled = None  # Else the first of those who ask for the same was tried in vain: so is this.

    def still_settled(self, now: float) -> bool:
        """Whether a decision would again be to do nothing, for all that has happened since the last one."""
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
        queue = entry.queue
        queue.shift(sign * (entry.held + going), NOW)
        queue.shift(sign * entry.held, SOON)
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
        """Every job that waits in line, in no order that means anything."""
        for leaf in self.tree.leaves:
            for found in leaf.line.classes():
                yield from found.entries.values()

    def holders(self) -> Iterator[Entry]:
        """Every job that holds something."""
        return (entry for entry in self.entries.values() if entry.places or entry.leaving)

    def compile(self, job: Job) -> Shape:
        """The shape that a job would have."""
        return self._compiler.shape(job, self.queue_of(job.spec.queue).nodes)

    def reordered(self, shape: Shape, kinds: tuple[int, ...]) -> Shape:
        """The shape with its kinds of device in this order of preference."""
        return self._compiler.reordered(shape, kinds)

    def empty(self) -> "Snapshot":
        """The same pool with all its devices sound and nobody on them, and the same queues."""
        if self._empty is None:
            sound = [
                replace(
                    node,
                    cordoned=False,
                    devices=tuple(replace(d, health=Health.HEALTHY, outside="") for d in node.devices),
                )
                for node in self.nodes
            ]
            self._empty = Snapshot(sound, self.queue_list, policy=self.policy)
        return self._empty


def waits(job: Job) -> bool:
    """Whether a job would take GPUs if it got them."""
    if job.desired is not Desired.RUN:
        return False
    return job.phase is Phase.PENDING or (job.phase is Phase.PAUSED and job.paused_by is PauseCause.SCHEDULER)
