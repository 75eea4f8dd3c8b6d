"""State of every GPU of the pool, kept up to date one change at a time.

There is one per server, for any number of viewers: the effect of a change is computed once, and each viewer
asks for the news since the last request. It holds what the loop holds in memory and nothing more; it reads no
clock and calls no service. Not for several threads at once: `pool_now` ensures that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from grus.model.activity_labels import Tag, of_gpu
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.jobs import HOLDING, Job, Phase
from grus.model.nodes import Device, Node
from grus.model.resources import GPU
from grus.telemetry.samples import Fault, Measure, Sample, Subject


class Holder(NamedTuple):
    """A job on a GPU."""

    job: JobId
    name: str
    user: UserName
    queue: QueueName
    share: int
    """Micro-GPUs of this one."""
    phase: Phase
    leaving: bool
    """It has given this GPU back, but the end of its processes is not confirmed yet."""


class GpuMeasurement(NamedTuple):
    """Measurements of a GPU; None if not measured."""

    busy: int | None = None
    """Percent of the time."""
    memory: int | None = None
    """Bytes that are taken, to a hundredth of the GPU's own."""
    instances: tuple[tuple[str, int], ...] = ()
    """Number of each instance, and percent, of a GPU that is partitioned (MIG)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One GPU but for its use, which changes more often than the rest."""

    place: int
    """Its number in the pool, in the order of nodes; what pages call it."""
    node: int
    device: Device
    holders: tuple[Holder, ...] = ()
    kind: str = ""
    """Recognized activity on the GPU; empty for none."""
    hung: bool = False
    fault: int | None = None
    """Number of the last error that its driver has reported."""

    @property
    def held(self) -> int:
        """Micro-GPUs."""
        return sum(holder.share for holder in self.holders)


class NodeNow(NamedTuple):
    """A node but for its GPUs."""

    place: int
    id: NodeId
    gpus: int
    held: int
    """Micro-GPUs."""
    closed: str
    """Reason that it takes no new work: cordoned or draining; empty if it does."""
    drain_message: str


class Sums(NamedTuple):
    """The pool in a few numbers; amounts in micro-GPUs."""

    nodes: int
    gpus: int
    usable: int
    held: int
    busy: float | None
    """Mean percent of the GPUs that are held; None where nothing is measured."""
    jobs: int
    """Jobs that hold GPUs."""


class GpuCounts(NamedTuple):
    """Contribution of one GPU to the sums."""

    held: int = 0
    usable: int = 0
    busy: int = 0
    measured: int = 0
    """1 if it is held and its use is known."""


class News(NamedTuple):
    """Changes since some version."""

    tiles: Sequence[Tile]
    use: Sequence[int]
    """Places of GPUs whose use changed; those of `tiles` may be among them."""
    nodes: Sequence[NodeNow]


class Changes:
    """Items with the version of their last change, the latest change last."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}

    def note(self, place: int, version: int) -> None:
        self._at.pop(place, None)
        self._at[place] = version

    def since(self, version: int) -> list[int]:
        """Return the places changed since a version, in no particular order; takes as long as there are
        changes.
        """
        found = []
        for place, at in reversed(self._at.items()):
            if at <= version:
                break
            found.append(place)
        return found


class Tiles:
    """See the module. Every `take_…` that changes something makes the next version."""

    def __init__(self) -> None:
        self.version = 0
        self.layout = 0
        """Counts changes of which GPUs there are; places are the same only within one."""
        self._nodes: tuple[Node, ...] = ()
        self._tiles: list[Tile] = []
        self._use: list[GpuMeasurement] = []
        self._place: dict[DeviceId, int] = {}
        self._jobs: dict[JobId, Job] = {}
        self._on: dict[DeviceId, dict[JobId, tuple[Holder, ...]]] = {}
        self._changed, self._used, self._moved = Changes(), Changes(), Changes()
        """Changes of tiles, of their use, and of nodes."""
        self._whole = GpuCounts()
        """The sum of all parts, kept as they change."""

    # --------------------------------------------------------------------------------------- taking in

    def take_nodes(self, nodes: tuple[Node, ...]) -> None:
        """The pool as it is; health and cordons are changes, other GPUs are another layout."""
        if nodes is self._nodes or nodes == self._nodes:
            return
        self.version += 1
        same = _shape(nodes) == _shape(self._nodes)
        before, self._nodes = self._nodes, nodes
        if not same:
            self._lay_out()
            return
        for number, (old, new) in enumerate(zip(before, nodes, strict=True)):
            if old is new:
                continue
            if (old.cordoned, old.drain) != (new.cordoned, new.drain):
                self._moved.note(number, self.version)
            for device in new.devices:
                self._put(replace(self._tiles[self._place[device.id]], device=device))

    def _lay_out(self) -> None:
        self.layout += 1
        self._changed, self._used, self._moved = Changes(), Changes(), Changes()
        known = {tile.device.id: (tile, self._use[tile.place]) for tile in self._tiles}
        self._tiles, self._use, self._place = [], [], {}
        for number, node in enumerate(self._nodes):
            for device in node.devices:
                place = self._place[device.id] = len(self._tiles)
                old, use = known.get(
                    device.id, (Tile(place=place, node=number, device=device), GpuMeasurement())
                )
                holders = self._holders(device.id)
                self._tiles.append(replace(old, place=place, node=number, device=device, holders=holders))
                self._use.append(use)
        self._whole = GpuCounts(*map(sum, zip(GpuCounts(), *map(_part, self._tiles, self._use), strict=True)))

    def take_job(self, job: Job) -> None:
        """A job as it was written, unless something newer of it is known."""
        known = self._jobs.get(job.id)
        if known is not None and known.version >= job.version:
            return
        holding = job.phase in HOLDING and bool(_devices(job))
        if known is None and not holding:
            return
        if holding:
            self._jobs[job.id] = job
        else:
            self._jobs.pop(job.id, None)
        self._seat(job.id, _places(job) if holding else {}, _devices(known))

    def keep_jobs(self, jobs: Iterable[Job]) -> None:
        """These hold GPUs and no others do."""
        there = {job.id: job for job in jobs}
        for id_ in [id_ for id_ in self._jobs if id_ not in there]:
            self._seat(id_, {}, _devices(self._jobs.pop(id_)))
        for job in there.values():
            self.take_job(job)

    def _seat(
        self, job: JobId, now: Mapping[DeviceId, tuple[Holder, ...]], before: Iterable[DeviceId]
    ) -> None:
        self.version += 1
        for device in {*now, *before}:
            on = self._on.setdefault(device, {})
            if device in now:
                on[job] = now[device]
            else:
                on.pop(job, None)
            place = self._place.get(device)
            if place is not None:
                self._put(replace(self._tiles[place], holders=self._holders(device)))

    def _holders(self, device: DeviceId) -> tuple[Holder, ...]:
        return tuple(holder for held in self._on.get(device, {}).values() for holder in held)

    def _put(self, tile: Tile) -> None:
        old = self._tiles[tile.place]
        if tile == old:
            return
        self._tiles[tile.place] = tile
        self._changed.note(tile.place, self.version)
        self._count(_part(old, self._use[tile.place]), _part(tile, self._use[tile.place]))
        if tile.held != old.held:
            self._moved.note(tile.node, self.version)

    def take_use(self, samples: Mapping[Subject, Sample]) -> None:
        """All that is measured of GPUs now; of a GPU that is not among them nothing is."""
        self.version += 1
        whole: dict[int, Sample] = {}
        parts: dict[int, list[tuple[str, int]]] = {}
        for subject, sample in samples.items():
            place = None if subject.device is None else self._place.get(subject.device)
            if place is None:
                continue
            if not subject.instance:
                whole[place] = sample
            elif (busy := _percent(sample)) is not None:
                parts.setdefault(place, []).append((subject.instance, busy))
        for place, tile in enumerate(self._tiles):
            use = _use(whole.get(place), tuple(sorted(parts.get(place, ()))), tile.device.memory)
            if use != self._use[place]:
                self._count(_part(tile, self._use[place]), _part(tile, use))
                self._use[place] = use
                self._used.note(place, self.version)

    def take_tags(self, tags: Mapping[str, Tag], faults: Mapping[Subject, Fault]) -> None:
        """Apply all current tags, and the last error of each GPU."""
        self.version += 1
        codes = {subject.device: fault.code for subject, fault in faults.items()}
        for tile in list(self._tiles):
            tag = tags.get(of_gpu(tile.device.id))
            kind, hung = ("", False) if tag is None else (tag.kind.value, tag.hung_since is not None)
            code = codes.get(tile.device.id)
            if (kind, hung, code) != (tile.kind, tile.hung, tile.fault):
                self._put(replace(tile, kind=kind, hung=hung, fault=code))

    # ----------------------------------------------------------------------------------------- reading

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    @property
    def tiles(self) -> Sequence[Tile]:
        return self._tiles

    def use(self, place: int) -> GpuMeasurement:
        return self._use[place]

    def node(self, number: int) -> NodeNow:
        node = self._nodes[number]
        held = sum(tile.held for tile in self.of_node(number))
        closed = "draining" if node.drain is not None else "cordoned" if node.cordoned else ""
        message = "" if node.drain is None else node.drain.message
        return NodeNow(number, node.id, len(node.devices), held, closed, message)

    def of_node(self, number: int) -> list[Tile]:
        return [self._tiles[self._place[device.id]] for device in self._nodes[number].devices]

    def since(self, version: int) -> News:
        tiles = [self._tiles[place] for place in self._changed.since(version)]
        nodes = [self.node(number) for number in self._moved.since(version)]
        return News(tiles, self._used.since(version), nodes)

    def sums(self) -> Sums:
        whole = self._whole
        return Sums(
            nodes=len(self._nodes),
            gpus=len(self._tiles) * GPU,
            usable=whole.usable,
            held=whole.held,
            busy=whole.busy / whole.measured if whole.measured else None,
            jobs=len(self._jobs),
        )

    def _count(self, before: GpuCounts, after: GpuCounts) -> None:
        if before != after:
            self._whole = GpuCounts(*(a + c - b for a, b, c in zip(self._whole, before, after, strict=True)))


def _part(tile: Tile, use: GpuMeasurement) -> GpuCounts:
    measured = bool(tile.holders) and use.busy is not None
    usable = GPU if tile.device.usable else 0
    return GpuCounts(tile.held, usable, (use.busy or 0) if measured else 0, int(measured))


def _shape(nodes: Iterable[Node]) -> list[tuple[object, ...]]:
    """Return the facts that determine the tiles and their places."""
    return [
        (node.id, *((device.id, device.type, device.memory, device.island) for device in node.devices))
        for node in nodes
    ]


def _places(job: Job) -> dict[DeviceId, tuple[Holder, ...]]:
    """Return the job's share of each GPU, placement by placement."""
    found: dict[DeviceId, tuple[Holder, ...]] = {}
    for seat in job.seats:
        holder = Holder(job.id, job.spec.name, job.user, job.spec.queue, seat.share, job.phase, seat.leaving)
        for device in seat.devices:
            found[device] = (*found.get(device, ()), holder)
    return found


def _devices(job: Job | None) -> list[DeviceId]:
    return [] if job is None else [device for seat in job.seats for device in seat.devices]


def _percent(sample: Sample | None) -> int | None:
    part = None if sample is None else sample.values.get(Measure.UTILISATION)
    return None if part is None else round(100 * part)


def _use(sample: Sample | None, instances: tuple[tuple[str, int], ...], memory: int) -> GpuMeasurement:
    taken = None if sample is None else sample.values.get(Measure.MEMORY)
    step = max(1, memory // 100)
    return GpuMeasurement(_percent(sample), None if taken is None else round(taken / step) * step, instances)
