"""Gang placement: all of a gang or nothing.

Fewest nodes first, then one NVLink island, then the node that is left fullest. `train` tries the fastest type
first, `dev` the smallest; a gang is put on different types only if the job says `mixed: true` and no single
type has room, and across slow links only when everything near is slower.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from grus.model.identifiers import DeviceId
from grus.model.jobs import Seat
from grus.model.resources import GPU
from grus.scheduler.placement.fractional_gpus import best_device, best_node
from grus.scheduler.state.network_links import reach, ways
from grus.scheduler.state.node_capacity_index import DeviceState, NodeState, pick_devices
from grus.scheduler.state.request_shapes import RoleShape, Shape

if TYPE_CHECKING:
    from grus.scheduler.state.transaction import Transaction

PLANNED = -1


class Place(NamedTuple):
    """Placement during a decision: the devices themselves instead of their names."""

    part: int
    number: int
    node: NodeState
    devices: tuple[DeviceState, ...]
    share: int
    born: int
    """Round that adds it; PLANNED while its devices are not all free yet."""

    @property
    def held(self) -> int:
        return self.share * len(self.devices)


def held_by_type(places: Iterable[Place]) -> dict[str, int]:
    """Return the micro-GPUs of these placements by type of GPU."""
    found: dict[str, int] = {}
    for place in places:
        for device in place.devices:
            found[device.type] = found.get(device.type, 0) + place.share
    return found


def place(
    transaction: "Transaction",
    shape: Shape,
    counts: list[int],
    horizon: int,
    born: int,
    taken: tuple[Place, ...] = (),
) -> list[Place] | None:
    """Find and take placements for `counts` replicas of each part; None if they don't all fit.

    `taken` are the placements that the gang has already: new ones get the free numbers and stay near.
    """
    within = reach(transaction.pool.racks, taken, sum(counts))
    if shape.one_node and taken:
        within = [taken[0].node.bit]
    preferences = (shape.preferred, shape.nodes) if shape.preferred != shape.nodes else (shape.nodes,)
    for nodes in within:
        for preferred in preferences:
            search = _GangSearch(transaction, shape, preferred & nodes, horizon, born)
            places = search.gang(counts, taken)
            if places is not None:
                return places
    return None


def to_seat(shape: Shape, place: Place, leaving: bool = False) -> Seat:
    return Seat(
        role=shape.parts[place.part].role,
        index=place.number,
        node=place.node.id,
        devices=tuple(DeviceId(device.id) for device in place.devices),
        share=place.share,
        born=place.born,
        leaving=leaving,
    )


class _Choice(NamedTuple):
    """Number of replicas on this node, on devices of this kind."""

    node: NodeState
    kind: int
    replicas: int


@dataclass(frozen=True, slots=True)
class _GangSearch:
    """Placement search: its request, its nodes and kinds, and its horizon."""

    transaction: "Transaction"
    shape: Shape
    nodes: int
    """Nodes that may be used, as bits."""
    horizon: int
    born: int
    kinds: frozenset[int] | None = None
    """Kinds of device that may be used; None for all that each part may use."""

    def gang(self, counts: list[int], taken: tuple[Place, ...]) -> list[Place] | None:
        """Return places for all parts, taken in the transaction; None, with nothing taken, if they do not all
        fit.
        """
        mark = self.transaction.mark()
        searches = [self]
        if self.shape.one_node and len(self.shape.parts) > 1:
            searches = [replace(self, nodes=node.bit) for node in self._each()]
        if taken or (len(self.shape.groups) > 1 and len(self.shape.parts) > 1):
            groups = _groups_with(self.shape, taken)
            searches = [replace(search, kinds=kinds) for kinds in groups for search in searches]
        for search in searches:
            places = search._parts(counts, taken)
            if places is not None:
                return places
            self.transaction.undo(mark)
        return None

    def _ways(self, part: RoleShape, near: tuple[Place, ...]) -> list[tuple[int, int]]:
        """Return the kinds of device and nodes over which the gang may be spread, the best first."""
        pool, kinds = self.transaction.pool, self._kinds(_kinds_near(part, near))
        if len(pool.racks) < 2 or self.shape.one_node or self.shape.maximum <= GPU:
            return [(kind, self.nodes) for kind in kinds]
        return [(kind, nodes & self.nodes) for kind, nodes in ways(pool.racks, kinds, pool.speeds)]

    def _kinds(self, kinds: tuple[int, ...]) -> tuple[int, ...]:
        """Return those of the kinds that may be used."""
        return kinds if self.kinds is None else tuple(kind for kind in kinds if kind in self.kinds)

    def _each(self) -> list[NodeState]:
        return list(self.transaction.pool.each(self.nodes))

    def _parts(self, counts: list[int], taken: tuple[Place, ...]) -> list[Place] | None:
        # The part with the biggest replicas chooses first; those without a GPU follow the others.
        parts = self.shape.parts
        order = sorted(range(len(counts)), key=lambda i: -parts[i].unit) if len(counts) > 1 else (0,)
        places: list[Place] = []
        for i in order:
            if counts[i]:
                numbers = _free_numbers(i, counts[i], taken)
                found = self._part(i, numbers, (*taken, *places))
                if found is None:
                    return None
                places += found
        return places

    def _part(self, index: int, numbers: list[int], near: tuple[Place, ...]) -> list[Place] | None:
        part = self.shape.parts[index]
        if part.unit == 0:
            return self._without_gpu(index, numbers, near)
        if part.gpus == 0:
            return self._slices(index, numbers)
        for kind, nodes in self._ways(part, near):
            chosen = self._spread(part, len(numbers), kind, near, nodes)
            if chosen is not None:
                return self._take(index, numbers, chosen)
        for group in () if self.shape.one_node else self.shape.groups:
            kinds = tuple(kind for kind in self._kinds(part.kinds) if kind in group)
            chosen = self._over_nodes(part, len(numbers), kinds) if len(kinds) > 1 else None
            if chosen is not None:
                return self._take(index, numbers, chosen)
        return None

    # ------------------------------------------------------------------------------------ whole GPUs

    def _spread(
        self, part: RoleShape, count: int, kind: int, near: tuple[Place, ...], nodes: int
    ) -> list[_Choice] | None:
        """Return nodes for `count` replicas: one node if any has room for all (best where the gang is
        already), else the roomiest of `nodes` first.
        """
        cpu, memory = part.cpu * count, part.memory * count
        for place in near:
            node = place.node
            enough = node.counts[self.horizon].get(kind, 0) >= count * part.gpus
            if enough and node.bit & self.nodes and node.hosts(cpu, memory, self.horizon):
                return [_Choice(node, kind, count)]
        best = self._best_node(part, count, kind, self.nodes)
        if best is not None:
            return [_Choice(best, kind, count)]
        if self.shape.one_node or count == 1:
            return None
        search = self if nodes == self.nodes else replace(self, nodes=nodes)
        return search._over_nodes(part, count, (kind,))

    def _over_nodes(self, part: RoleShape, count: int, kinds: tuple[int, ...]) -> list[_Choice] | None:
        pool, per = self.transaction.pool, part.gpus
        if sum(pool.whole_free(kind, self.nodes, self.horizon) for kind in kinds) < count * per:
            return None
        chosen: list[_Choice] = []
        for kind in kinds:
            index = pool.whole[self.horizon][kind]
            for free in range(len(index) - 1, per - 1, -1):
                for node in pool.each(index[free] & self.nodes):
                    last = self._last(part, count, kind, chosen) if count * per <= free else None
                    if last is not None:
                        return [*chosen, last]
                    here = self._hostable(node, part, min(count, free // per))
                    if here:
                        chosen.append(_Choice(node, kind, here))
                        count -= here
                    if count == 0:
                        return chosen
        return None

    def _last(self, part: RoleShape, count: int, kind: int, chosen: list[_Choice]) -> _Choice | None:
        """Return the node for the rest, which fits on one: the tightest that still has room."""
        rest = self.nodes & ~sum({choice.node.bit for choice in chosen})
        node = self._best_node(part, count, kind, rest)
        return None if node is None else _Choice(node, kind, count)

    def _best_node(self, part: RoleShape, count: int, kind: int, nodes: int) -> NodeState | None:
        transaction = self.transaction
        return best_node(transaction.pool, transaction.snapshot.mix, part, count, kind, nodes, self.horizon)

    def _hostable(self, node: NodeState, part: RoleShape, count: int) -> int:
        """Return how many of `count` replicas the node's CPU and memory allow."""
        while count and not node.hosts(part.cpu * count, part.memory * count, self.horizon):
            count -= 1
        return count

    def _take(self, index: int, numbers: list[int], chosen: list[_Choice]) -> list[Place]:
        part = self.shape.parts[index]
        places: list[Place] = []
        for node, kind, replicas in chosen:
            devices = pick_devices(node, kind, replicas * part.gpus, self.horizon)
            for first in range(0, len(devices), part.gpus):
                mine = tuple(devices[first : first + part.gpus])
                for device in mine:
                    self.transaction.take(device, GPU)
                places.append(self._seat(index, numbers[len(places)], node, mine, GPU))
        return places

    # --------------------------------------------------------------------------- slices, and no GPU

    def _slices(self, index: int, numbers: list[int]) -> list[Place] | None:
        """Return slices for all of them: of one type each time, if there are several."""
        part, mark = self.shape.parts[index], self.transaction.mark()
        groups = self.shape.groups if len(numbers) > 1 else (self.shape.kinds,)
        for group in groups:
            kinds = tuple(kind for kind in self._kinds(part.kinds) if kind in group)
            found = self._slices_of(replace(part, kinds=kinds), index, numbers)
            if found is not None:
                return found
            self.transaction.undo(mark)
        return None

    def _slices_of(self, part: RoleShape, index: int, numbers: list[int]) -> list[Place] | None:
        transaction = self.transaction
        places: list[Place] = []
        for number in numbers:
            found = best_device(transaction.pool, transaction.snapshot.mix, part, self.nodes, self.horizon)
            if found is None:
                return None
            device, share = found
            transaction.take(device, share)
            places.append(self._seat(index, number, device.node, (device,), share))
        return places

    def _without_gpu(self, index: int, numbers: list[int], near: tuple[Place, ...]) -> list[Place] | None:
        """Place replicas without GPUs beside the others if the host has room, else anywhere allowed."""
        part = self.shape.parts[index]
        places: list[Place] = []
        for number in numbers:
            candidates = [*(place.node for place in near), *self._each()]
            node = next((n for n in candidates if n.hosts(part.cpu, part.memory, self.horizon)), None)
            if node is None:
                return None
            places.append(self._seat(index, number, node, (), 0))
        return places

    def _seat(
        self, index: int, number: int, node: NodeState, devices: tuple[DeviceState, ...], share: int
    ) -> Place:
        part = self.shape.parts[index]
        if part.cpu or part.memory:
            self.transaction.host(node, part.cpu, part.memory)
        return Place(index, number, node, devices, share, self.born)


def _free_numbers(part: int, count: int, taken: tuple[Place, ...]) -> list[int]:
    """Return the lowest numbers that no replica of the part has."""
    if not taken:
        return list(range(count))
    used = {place.number for place in taken if place.part == part}
    return [number for number in range(count + len(used)) if number not in used][:count]


def _groups_with(shape: Shape, taken: tuple[Place, ...]) -> tuple[frozenset[int], ...]:
    """Return groups of kinds for a gang that has these placements: it stays on its present type."""
    held = [place.devices[0].kind for place in taken if place.devices]
    every = tuple(group for group in shape.groups if group.issuperset(held))
    return every or tuple(group for group in shape.groups if held[0] in group)


def _kinds_near(part: RoleShape, near: tuple[Place, ...]) -> tuple[int, ...]:
    """Return kinds in order of preference; a growing gang first tries its present kind."""
    for place in near:
        if place.devices and place.devices[0].kind in part.kinds:
            first = place.devices[0].kind
            return (first, *(kind for kind in part.kinds if kind != first))
    return part.kinds
