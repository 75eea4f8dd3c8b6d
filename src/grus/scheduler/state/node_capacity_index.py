"""Pool as the scheduler sees it: devices with their free parts, now and soon.

*Now* is what is confirmed free. *Soon* also counts what leaving workers will give back: plans may build on
it, starts may not. Nodes are bits of integers, so that "nodes of this kind with exactly three free GPUs that
the job may use" is one `&`; looking for a place costs the number of GPUs of a node, not of the pool.
"""

from collections.abc import Collection, Iterable, Iterator

from grus.model.identifiers import DeviceId, NodeId
from grus.model.nodes import Device, Health, Node
from grus.model.resources import GPU
from grus.scheduler.state.network_links import racks

NOW, SOON = 0, 1
"""Horizons: now and soon."""

Kind = tuple[str, int]
"""Devices that are alike: type and memory."""


class DeviceState:
    """One device and what is free on it at both horizons, in micro-GPUs."""

    __slots__ = (
        "free",
        "healthy",
        "id",
        "index",
        "island",
        "kind",
        "memory",
        "node",
        "open",
        "speed",
        "type",
    )

    def __init__(self, index: int, device: Device, node: "NodeState", kind: int) -> None:
        self.index = index
        self.id = device.id
        self.node = node
        self.kind = kind
        self.type = device.type
        self.memory = device.memory
        self.island = device.island
        self.speed = device.speed
        self.healthy = device.health is Health.HEALTHY
        self.open = device.usable and not node.cordoned
        self.free = [GPU, GPU]


class NodeState:
    """Node with its devices, and the host CPU and memory left at both horizons (None: not counted)."""

    __slots__ = ("bit", "cordoned", "counts", "cpu", "devices", "drain", "id", "index", "labels", "memory")

    def __init__(self, index: int, node: Node) -> None:
        self.index = index
        self.bit = 1 << index
        self.id = node.id
        self.labels = dict(node.labels)
        self.cordoned = node.cordoned
        self.drain = node.drain
        """Drain of the node, while its jobs have to leave."""
        self.cpu = None if node.cpu is None else [node.cpu, node.cpu]
        self.memory = None if node.memory is None else [node.memory, node.memory]
        self.devices: list[DeviceState] = []
        self.counts: tuple[dict[int, int], dict[int, int]] = ({}, {})
        """Number of entirely free open devices by kind, at each horizon."""

    def hosts(self, cpu: int, memory: int, horizon: int) -> bool:
        """Return whether the host has that much CPU and memory left."""
        return (self.cpu is None or self.cpu[horizon] >= cpu) and (
            self.memory is None or self.memory[horizon] >= memory
        )


class Pool:
    """Pool of all nodes and devices, with the indexes that make looking for a place cheap."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        ordered = sorted(nodes, key=lambda node: node.id)
        self.kinds: list[Kind] = sorted({(d.type, d.memory) for node in ordered for d in node.devices})
        number = {kind: index for index, kind in enumerate(self.kinds)}
        self.speeds = [0.0] * len(self.kinds)
        self.nodes: list[NodeState] = []
        self.devices: list[DeviceState] = []
        self.by_id: dict[DeviceId, DeviceState] = {}
        self.node_by_id: dict[NodeId, NodeState] = {}
        self.open_nodes = 0
        self.draining = 0
        """Nodes whose jobs have to leave, as bits."""
        self.kind_nodes = [0] * len(self.kinds)
        """Nodes with an open device, by kind."""
        self.whole: tuple[list[list[int]], list[list[int]]] = ([], [])
        """[horizon][kind][count]: nodes with exactly that many entirely free devices of the kind."""
        self.partial: tuple[list[dict[int, int]], list[dict[int, int]]] = ([], [])
        """[horizon][kind][free]: devices (as bits) with that much free, more than nothing, less than all."""
        self.free = [0, 0]
        """Micro-GPUs free on open devices."""
        self.capacity = 0
        """Micro-GPUs of all devices that are healthy and not in use outside Grus, cordoned nodes included."""
        self.by_type: dict[str, int] = {}
        """The same by type."""
        self.hosts_counted = any(node.cpu is not None or node.memory is not None for node in ordered)
        """True if any node reports the CPU or memory of its host."""
        for node in ordered:
            self._add(node, number)
        self._build_index()
        self.racks = racks(self.nodes)
        """Groups of nodes that are near each other, as bits."""

    def _add(self, node: Node, number: dict[Kind, int]) -> None:
        state = NodeState(len(self.nodes), node)
        self.nodes.append(state)
        self.node_by_id[node.id] = state
        if not node.cordoned:
            self.open_nodes |= state.bit
        if node.drain is not None:
            self.draining |= state.bit
        for device in node.devices:
            kind = number[(device.type, device.memory)]
            held = DeviceState(len(self.devices), device, state, kind)
            self.speeds[kind] = max(self.speeds[kind], device.speed)
            self.devices.append(held)
            self.by_id[device.id] = held
            state.devices.append(held)
            if device.usable:
                self.capacity += GPU
                self.by_type[device.type] = self.by_type.get(device.type, 0) + GPU
            if held.open:
                self.kind_nodes[kind] |= state.bit

    def _build_index(self) -> None:
        for horizon in (NOW, SOON):
            for kind in range(len(self.kinds)):
                most = max((sum(d.kind == kind for d in node.devices) for node in self.nodes), default=0)
                self.whole[horizon].append([0] * (most + 1))
                self.partial[horizon].append({})
            for node in self.nodes:
                for device in node.devices:
                    node.counts[horizon].setdefault(device.kind, 0)
                    if device.open:
                        node.counts[horizon][device.kind] += 1
                        self.free[horizon] += GPU
                for kind, count in node.counts[horizon].items():
                    self.whole[horizon][kind][count] |= node.bit

    def shift(self, device: DeviceState, amount: int, horizon: int) -> None:
        """Change the free part of a device by `amount` micro-GPUs (negative: taken) at one horizon.

        Below zero means overbooked: held now by a leaving job, and planned for another.
        """
        before = device.free[horizon]
        after = before + amount
        device.free[horizon] = after
        if not device.open:
            return
        self.free[horizon] += max(after, 0) - max(before, 0)
        if before == GPU:
            self._count(device, -1, horizon)
        elif before > 0:
            self._forget_partial(device, before, horizon)
        if after == GPU:
            self._count(device, 1, horizon)
        elif after > 0:
            partial = self.partial[horizon][device.kind]
            partial[after] = partial.get(after, 0) | 1 << device.index

    def _count(self, device: DeviceState, step: int, horizon: int) -> None:
        counts = device.node.counts[horizon]
        index = self.whole[horizon][device.kind]
        count = counts[device.kind]
        bit = device.node.bit
        index[count] ^= bit
        counts[device.kind] = count + step
        index[count + step] |= bit

    def _forget_partial(self, device: DeviceState, free: int, horizon: int) -> None:
        partial = self.partial[horizon][device.kind]
        rest = partial[free] ^ (1 << device.index)
        if rest:
            partial[free] = rest
        else:
            del partial[free]

    def best_node(
        self, kind: int, count: int, allowed: int, horizon: int, cpu: int, memory: int
    ) -> NodeState | None:
        """Return the node with the fewest free devices of a kind that has `count`, and host CPU and
        memory.
        """
        index = self.whole[horizon][kind]
        for free in range(count, len(index)):
            for node in self.each(index[free] & allowed):
                if node.hosts(cpu, memory, horizon):
                    return node
        return None

    def each(self, bits: int) -> Iterator[NodeState]:
        """Yield the nodes of a bit set, in order."""
        nodes = self.nodes
        while bits:
            low = bits & -bits
            yield nodes[low.bit_length() - 1]
            bits ^= low

    def whole_free(self, kind: int, allowed: int, horizon: int) -> int:
        """Return how many entirely free devices of a kind the allowed nodes have."""
        index = self.whole[horizon][kind]
        return sum(count * (index[count] & allowed).bit_count() for count in range(1, len(index)))

    def whole_free_of(self, kinds: Iterable[int], allowed: int, horizon: int) -> int:
        """Return the number of entirely free devices of these kinds on the allowed nodes."""
        return sum(self.whole_free(kind, allowed, horizon) for kind in kinds)

    def having(self, kinds: Iterable[int], allowed: int, horizon: int) -> int:
        """Return the allowed nodes with an entirely free device of one of the kinds, as bits."""
        found = 0
        for kind in kinds:
            for nodes in self.whole[horizon][kind][1:]:
                found |= nodes
        return found & allowed

    def roomiest(self, kinds: Collection[int], allowed: int, horizon: int) -> int:
        """Return the bit of the allowed node with most entirely free devices of the kinds, the first of
        several.
        """
        if len(kinds) > 1:
            counts = {
                node.bit: sum(node.counts[horizon].get(kind, 0) for kind in kinds)
                for node in self.each(allowed)
            }
            return max(counts, key=counts.__getitem__, default=0)
        for kind in kinds:
            for nodes in reversed(self.whole[horizon][kind]):
                if nodes & allowed:
                    return nodes & allowed & -(nodes & allowed)
        return 0

    def matching(self, labels: Iterable[tuple[str, str]]) -> int:
        """Return the nodes that carry all these labels, as bits."""
        wanted = tuple(labels)
        return sum(
            node.bit for node in self.nodes if all(node.labels.get(key) == value for key, value in wanted)
        )


def pick_devices(node: NodeState, kind: int, count: int, horizon: int) -> list[DeviceState]:
    """Return `count` entirely free devices of a kind: out of one NVLink island if one has enough (the fullest
    such), else from the largest islands first.
    """
    islands: dict[int, list[DeviceState]] = {}
    for device in node.devices:
        if device.kind == kind and device.open and device.free[horizon] == GPU:
            islands.setdefault(device.island, []).append(device)
    if len(islands) == 1:
        return next(iter(islands.values()))[:count]
    enough = [island for island in islands.values() if len(island) >= count]
    if enough:
        return min(enough, key=lambda island: (len(island), island[0].index))[:count]
    largest = sorted(islands.values(), key=lambda island: (-len(island), island[0].index))
    return [device for island in largest for device in island][:count]
