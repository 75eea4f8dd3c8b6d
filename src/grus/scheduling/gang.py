"""The search for a gang's place: all of it or nothing.

Fewest nodes first, then one NVLink island, then the node that is left fullest. `train` tries the fastest type
first, `dev` the smallest; a gang is put on unlike types only when no single type has room.
"""

from typing import TYPE_CHECKING, NamedTuple

from grus.model.identifiers import DeviceId
from grus.model.jobs import Seat
from grus.model.resources import GPU
from grus.scheduling.shapes import Part, Shape
from grus.scheduling.sharing import best_device
from grus.scheduling.topology import DeviceState, NodeState, Pool, pick_devices

if TYPE_CHECKING:
    from grus.scheduling.transaction import Transaction


PLANNED = -1


class Place(NamedTuple):
    """A seat while it is being decided on: the devices themselves instead of their names."""

    part: int
    number: int
    node: NodeState
    devices: tuple[DeviceState, ...]
    share: int
    born: int
    """Generation that adds it; PLANNED while its devices are not all free yet."""

    @property
    def held(self) -> int:
        return self.share * len(self.devices)


def place(
    transaction: "Transaction",
    shape: Shape,
    counts: list[int],
    horizon: int,
    born: int,
    taken: tuple[Place, ...] = (),
) -> list[Place] | None:
    """Find seats for `counts` replicas of each part and take them; None if they don't all fit.

    `taken` are the seats that the gang has already: new ones get the free numbers and stay near.
    """
    mark = transaction.mark()
    for nodes in (shape.preferred, shape.nodes) if shape.preferred != shape.nodes else (shape.nodes,):
        if shape.one_node and taken:
            nodes &= taken[0].node.bit
        places = _place_parts(transaction, shape, counts, nodes, horizon, born, taken)
        if places is not None:
            return places
        transaction.undo(mark)
    return None


def _place_parts(
    transaction: "Transaction",
    shape: Shape,
    counts: list[int],
    nodes: int,
    horizon: int,
    born: int,
    taken: tuple[Place, ...],
) -> list[Place] | None:
    if shape.one_node and len(shape.parts) > 1:
        for node in transaction.pool.each(nodes):
            mark = transaction.mark()
            places = _each_part(transaction, shape, counts, node.bit, horizon, born, taken)
            if places is not None:
                return places
            transaction.undo(mark)
        return None
    return _each_part(transaction, shape, counts, nodes, horizon, born, taken)


def _each_part(
    transaction: "Transaction",
    shape: Shape,
    counts: list[int],
    nodes: int,
    horizon: int,
    born: int,
    taken: tuple[Place, ...],
) -> list[Place] | None:
    # The part with the biggest replicas chooses first; those without a GPU follow the others.
    order = sorted(range(len(counts)), key=lambda i: -shape.parts[i].unit) if len(counts) > 1 else (0,)
    places: list[Place] = []
    for i in order:
        if counts[i] == 0:
            continue
        numbers = _free_numbers(i, counts[i], taken)
        found = _place_part(transaction, i, shape, numbers, nodes, horizon, born, (*taken, *places))
        if found is None:
            return None
        places += found
    return places


def _free_numbers(part: int, count: int, taken: tuple[Place, ...]) -> list[int]:
    if not taken:
        return list(range(count))
    used = {place.number for place in taken if place.part == part}
    numbers: list[int] = []
    at = 0
    while len(numbers) < count:
        if at not in used:
            numbers.append(at)
        at += 1
    return numbers


def _place_part(
    transaction: "Transaction",
    index: int,
    shape: Shape,
    numbers: list[int],
    nodes: int,
    horizon: int,
    born: int,
    near: tuple[Place, ...],
) -> list[Place] | None:
    part = shape.parts[index]
    if part.unit == 0:
        return _place_hostless(transaction, index, part, numbers, nodes, horizon, born, near)
    if part.gpus == 0:
        return _place_slices(transaction, index, part, numbers, nodes, horizon, born)
    mark = transaction.mark()
    for kind in _kinds_near(part, near):
        chosen = _spread(transaction.pool, part, len(numbers), [kind], nodes, horizon, shape.one_node, near)
        if chosen is not None:
            return _take(transaction, index, part, numbers, chosen, horizon, born)
    transaction.undo(mark)
    if len(part.kinds) > 1 and not shape.one_node:
        chosen = _spread(transaction.pool, part, len(numbers), list(part.kinds), nodes, horizon, False, near)
        if chosen is not None:
            return _take(transaction, index, part, numbers, chosen, horizon, born)
    return None


def _kinds_near(part: Part, near: tuple[Place, ...]) -> tuple[int, ...]:
    """Kinds in order of preference; a growing gang first tries the kind that it has."""
    for place in near:
        if place.devices and place.devices[0].kind in part.kinds:
            first = place.devices[0].kind
            return (first, *(kind for kind in part.kinds if kind != first))
    return part.kinds


Chosen = list[tuple[NodeState, int, int]]
"""(node, kind, replicas there)"""


def _spread(
    pool: Pool,
    part: Part,
    count: int,
    kinds: list[int],
    nodes: int,
    horizon: int,
    one_node: bool,
    near: tuple[Place, ...],
) -> Chosen | None:
    """Nodes for `count` replicas of whole GPUs: one node if any has room for all, else the roomiest first."""
    per = part.gpus
    for kind in kinds:
        for place in near:  # Where the gang is already, if all fit there.
            node = place.node
            if (
                node.bit & nodes
                and node.counts[horizon].get(kind, 0) >= count * per
                and node.hosts(part.cpu * count, part.memory * count, horizon)
            ):
                return [(node, kind, count)]
        node_or_none = pool.best_node(
            kind, count * per, nodes, horizon, part.cpu * count, part.memory * count
        )
        if node_or_none is not None:
            return [(node_or_none, kind, count)]
    if one_node or count == 1:
        return None
    return _over_nodes(pool, part, count, kinds, nodes, horizon)


def _over_nodes(
    pool: Pool, part: Part, count: int, kinds: list[int], nodes: int, horizon: int
) -> Chosen | None:
    per = part.gpus
    if sum(pool.whole_free(kind, nodes, horizon) for kind in kinds) < count * per:
        return None
    chosen: Chosen = []
    for kind in kinds:
        index = pool.whole[horizon][kind]
        for free in range(len(index) - 1, per - 1, -1):
            for node in pool.each(index[free] & nodes):
                if count * per <= free:
                    # The rest fits one node: the tightest that still has room.
                    last = pool.best_node(
                        kind,
                        count * per,
                        nodes & ~_bits(chosen),
                        horizon,
                        part.cpu * count,
                        part.memory * count,
                    )
                    if last is not None:
                        return [*chosen, (last, kind, count)]
                here = _hostable(node, part, min(count, free // per), horizon)
                if here:
                    chosen.append((node, kind, here))
                    count -= here
                if count == 0:
                    return chosen
    return None


def _bits(chosen: Chosen) -> int:
    return sum({node.bit for node, _, _ in chosen})


def _hostable(node: NodeState, part: Part, count: int, horizon: int) -> int:
    """How many of `count` replicas the node's CPU and memory allow."""
    while count and not node.hosts(part.cpu * count, part.memory * count, horizon):
        count -= 1
    return count


def _take(
    transaction: "Transaction",
    index: int,
    part: Part,
    numbers: list[int],
    chosen: Chosen,
    horizon: int,
    born: int,
) -> list[Place]:
    places: list[Place] = []
    per = part.gpus
    at = 0
    for node, kind, replicas in chosen:
        devices = pick_devices(node, kind, replicas * per, horizon)
        for first in range(0, replicas * per, per):
            mine = tuple(devices[first : first + per])
            for device in mine:
                transaction.take(device, GPU)
            if part.cpu or part.memory:
                transaction.host(node, part.cpu, part.memory)
            places.append(Place(index, numbers[at], node, mine, GPU, born))
            at += 1
    return places


def _place_slices(
    transaction: "Transaction",
    index: int,
    part: Part,
    numbers: list[int],
    nodes: int,
    horizon: int,
    born: int,
) -> list[Place] | None:
    places: list[Place] = []
    for number in numbers:
        found = best_device(transaction.pool, part, nodes, horizon)
        if found is None:
            return None
        device, share = found
        transaction.take(device, share)
        if part.cpu or part.memory:
            transaction.host(device.node, part.cpu, part.memory)
        places.append(Place(index, number, device.node, (device,), share, born))
    return places


def _place_hostless(
    transaction: "Transaction",
    index: int,
    part: Part,
    numbers: list[int],
    nodes: int,
    horizon: int,
    born: int,
    near: tuple[Place, ...],
) -> list[Place] | None:
    """Replicas without a GPU: beside the others if the host has room, else anywhere allowed."""
    places: list[Place] = []
    for number in numbers:
        candidates = [place.node for place in near] or []
        node = next((n for n in candidates if n.hosts(part.cpu, part.memory, horizon)), None)
        if node is None:
            node = next(
                (n for n in transaction.pool.each(nodes) if n.hosts(part.cpu, part.memory, horizon)), None
            )
        if node is None:
            return None
        transaction.host(node, part.cpu, part.memory)
        places.append(Place(index, number, node, (), 0, born))
    return places


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
