"""Requests compiled for one pool. Jobs with the same shape are interchangeable to the scheduler."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from grus.model.identifiers import NodeId
from grus.model.jobs import Job, JobType, Spec
from grus.model.resources import GPU, Range, Role
from grus.scheduler.state.node_capacity_index import Pool


@dataclass(frozen=True, slots=True)
class RoleShape:
    """One role of a gang, compiled."""

    role: str
    low: int
    high: int
    gpus: int
    """Whole GPUs of a replica."""
    share: int
    memory_slice: int
    """Bytes of GPU memory, for a slice by memory."""
    kinds: tuple[int, ...]
    """Accepted kinds of device, the preferred first."""
    unit: int
    """Micro-GPUs of one replica; a slice by memory counts as its share of the largest device allowed."""
    cpu: int
    memory: int


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Shape of a request. Jobs with the same shape are interchangeable to the scheduler."""

    key: int
    parts: tuple[RoleShape, ...]
    elastic: int
    """Index of the part that has a range; -1 for none."""
    sizes: tuple[int, ...]
    """Allowed numbers of replicas of the elastic part, ascending."""
    one_node: bool
    nodes: int
    """Nodes that it may use, as bits."""
    preferred: int
    """Preferred nodes among them."""
    kinds: frozenset[int]
    """All kinds of device that any of its parts may use."""
    possible: bool
    """True if the present pool, unallocated, has as many devices as its minimum needs."""
    minimum: int
    maximum: int
    """Micro-GPUs at the smallest and the largest size."""
    shares: bool = False
    """True if its one GPU may be shared."""
    groups: tuple[frozenset[int], ...] = ()
    """Kinds of device that one gang may combine: those of one type, or all if types may be mixed."""

    def competes(self, other: "Shape") -> bool:
        """Return whether both could need the same device."""
        return bool(self.nodes & other.nodes) and not self.kinds.isdisjoint(other.kinds)

    def narrowed(self, kinds: Sequence[Container[int]]) -> "Shape":
        """Return the same request with each part limited to these kinds of device."""
        parts = tuple(
            replace(part, kinds=tuple(k for k in part.kinds if k in allowed))
            for part, allowed in zip(self.parts, kinds, strict=True)
        )
        if all(new.kinds == old.kinds for new, old in zip(parts, self.parts, strict=True)):
            return self
        left = frozenset(kind for part in parts for kind in part.kinds)
        groups = tuple(group & left for group in self.groups if group & left)
        return replace(self, parts=parts, kinds=left, groups=groups)

    @property
    def grows_without_gpu(self) -> bool:
        """Return whether its elastic part needs no GPU."""
        return self.elastic >= 0 and self.parts[self.elastic].unit == 0

    def counts(self) -> list[int]:
        """Return the replicas of each part at the smallest size."""
        return [part.low for part in self.parts]

    def next_size(self, size: int) -> int | None:
        """Return the next larger allowed size."""
        return next((n for n in self.sizes if n > size), None)

    def lower_size(self, size: int) -> int | None:
        """Return the next smaller allowed size; None at the minimum."""
        return next((n for n in reversed(self.sizes) if n < size), None)


class Compiler:
    """Makes shapes for one pool, one for each distinct request."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._shapes: dict[object, Shape] = {}
        self._reordered: dict[tuple[Shape, tuple[int, ...]], Shape] = {}

    def shape(self, job: Job, queue_nodes: int) -> Shape:
        return self.compile(job.spec, job.size, queue_nodes, job.near)

    def compile(
        self, spec: Spec, size: Range | None, queue_nodes: int, near: tuple[NodeId, ...] = ()
    ) -> Shape:
        """Return the shape of a request. `near` are nodes that already have its data."""
        dev = spec.type is JobType.DEV
        mixed = spec.request.mixed or spec.type is JobType.SERVE  # replicas that answer have no gang
        name = (spec.request, size, spec.node_selector, spec.affinity, dev, queue_nodes, near, mixed)
        found = self._shapes.get(name)
        if found is None:
            made = self._make(spec, size, queue_nodes, dev, mixed)
            found = self._shapes[name] = self._near(made, spec, near)
        return found

    def _near(self, shape: Shape, spec: Spec, near: tuple[NodeId, ...]) -> Shape:
        """Return the shape of a job that prefers nodes with its data, if GPUs are alike and it prefers no
        other nodes.

        A faster GPU is worth more than a saved copy.
        """
        states = [self._pool.node_by_id[node] for node in near if node in self._pool.node_by_id]
        there = shape.nodes & sum(state.bit for state in states)
        if not there or spec.affinity.prefer or len(self._kinds_at(shape)) > 1:
            return shape
        return replace(shape, preferred=there)

    def _kinds_at(self, shape: Shape) -> set[int]:
        """Return the kinds of device on the nodes that it may use."""
        nodes = self._pool.each(shape.nodes)
        return {device.kind for node in nodes for device in node.devices} & shape.kinds

    def reordered(self, shape: Shape, kinds: tuple[int, ...]) -> Shape:
        """Return the same request with other preferences; the same object for the same order."""
        name = (shape, kinds)
        if name not in self._reordered:
            parts = tuple(
                replace(part, kinds=tuple(kind for kind in kinds if kind in part.kinds))
                for part in shape.parts
            )
            unchanged = all(new.kinds == old.kinds for new, old in zip(parts, shape.parts, strict=True))
            self._reordered[name] = shape if unchanged else replace(shape, parts=parts)
        return self._reordered[name]

    def _make(self, spec: Spec, size: Range | None, queue_nodes: int, dev: bool, mixed: bool) -> Shape:
        request, pool = spec.request, self._pool
        nodes = pool.open_nodes & queue_nodes
        if spec.node_selector:
            nodes &= pool.matching(spec.node_selector)
        for avoided in spec.affinity.avoid_nodes:
            state = pool.node_by_id.get(NodeId(avoided))
            if state is not None:
                nodes &= ~state.bit
        preferred = nodes & pool.matching(spec.affinity.prefer) if spec.affinity.prefer else nodes
        elastic = next((i for i, role in enumerate(request.roles) if not role.replicas.rigid), -1)
        sizes = request.allowed
        if elastic >= 0 and size is not None:
            chosen = range(size.low, size.high + 1)
            sizes = tuple(n for n in request.sizes if n in chosen) if request.sizes else tuple(chosen)
        parts = tuple(
            self._part(role, dev, sizes if i == elastic else ()) for i, role in enumerate(request.roles)
        )
        kinds = frozenset(kind for part in parts for kind in part.kinds)
        minimum = sum(part.low * part.unit for part in parts)
        groups = (kinds,) if mixed else self._groups(parts)
        enough = [group for group in groups if self._possible(nodes, group, minimum, request.one_node)]
        shape = Shape(
            key=len(self._shapes),
            parts=parts,
            elastic=elastic,
            sizes=sizes,
            one_node=request.one_node,
            nodes=nodes,
            preferred=preferred,
            kinds=kinds,
            possible=bool(enough),
            minimum=minimum,
            maximum=sum(part.high * part.unit for part in parts),
            groups=groups,
            shares=request.shares and [(part.gpus, part.low, part.high) for part in parts] == [(1, 1, 1)],
        )
        if size is not None or not 0 < len(enough) < len(groups):
            return shape  # If a user has set its size, it may be on a type with too few.
        # Types with too few GPUs are of no use to it: no GPU of them is kept for it.
        usable = frozenset(kind for group in enough for kind in group)
        return replace(shape.narrowed([usable] * len(parts)), groups=tuple(enough))

    def _groups(self, parts: tuple[RoleShape, ...]) -> tuple[frozenset[int], ...]:
        """Return one group per type, with the kinds of those roles that cannot use it."""
        names = [name for name, _ in self._pool.kinds]
        found = []
        for part in sorted(parts, key=lambda part: -part.unit):
            for name in dict.fromkeys(names[kind] for kind in part.kinds):
                alike = [[k for k in p.kinds if names[k] == name] or p.kinds for p in parts if p.unit]
                found.append(frozenset(kind for kinds in alike for kind in kinds))
        return tuple(dict.fromkeys(found)) or (frozenset(),)

    def _possible(self, nodes: int, kinds: frozenset[int], minimum: int, one_node: bool) -> bool:
        found = [
            sum(GPU for device in node.devices if device.open and device.kind in kinds)
            for node in self._pool.each(nodes)
        ]
        return (max(found, default=0) if one_node else sum(found)) >= minimum

    def _part(self, role: Role, dev: bool, sizes: tuple[int, ...]) -> RoleShape:
        replica, pool = role.replica, self._pool
        kinds = [i for i, (name, _) in enumerate(pool.kinds) if not replica.types or name in replica.types]
        kinds = [i for i in kinds if replica.share_of(pool.kinds[i][1]) <= GPU]
        kinds.sort(key=lambda i: (pool.kinds[i][1], pool.speeds[i], i) if dev else (-pool.speeds[i], i))
        unit = replica.gpus * GPU or replica.share
        if replica.gpu_memory:
            largest = max((pool.kinds[i][1] for i in kinds), default=0)
            unit = replica.share_of(largest) if largest else GPU
        return RoleShape(
            role=role.name,
            low=sizes[0] if sizes else role.replicas.low,
            high=sizes[-1] if sizes else role.replicas.high,
            gpus=replica.gpus,
            share=replica.share,
            memory_slice=replica.gpu_memory,
            kinds=tuple(kinds),
            unit=unit,
            cpu=replica.cpu,
            memory=replica.memory,
        )
