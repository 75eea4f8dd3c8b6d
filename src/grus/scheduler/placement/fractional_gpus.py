"""Placement of GPU slices, and of whole GPUs if hosts are counted: at the place at which the usual mix loses
least.

`fragmentation` computes the loss of the mix. Among equals the fullest shared device that still has room is
taken first, so that whole GPUs stay whole; a new one is opened on the node that has the fewest left. Devices
are looked up by their free amount, never one by one; only if hosts are counted are nodes examined, and at
most `LOOKED_AT` of those with the same amount free.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduler.placement.fragmentation import Mix, Weights, slice_share
from grus.scheduler.state.node_capacity_index import DeviceState, NodeState, Pool

if TYPE_CHECKING:
    from grus.scheduler.state.request_shapes import RoleShape

LOOKED_AT = 32
"""Number of nodes that are compared at each level of free GPU."""


def best_device(
    pool: Pool, mix: Mix, part: "RoleShape", nodes: int, horizon: int
) -> tuple[DeviceState, int] | None:
    """Return the device for one slice, and the amount that it takes there."""
    for kind in part.kinds:
        share = slice_share(part, pool.kinds[kind][1])
        if share > GPU:
            continue
        search = _DeviceSearch(pool, mix.weights(kind), part, kind, nodes, horizon)
        device = search.device(share)
        if device is not None:
            return device, share
    return None


def best_node(
    pool: Pool, mix: Mix, part: "RoleShape", replicas: int, kind: int, nodes: int, horizon: int
) -> NodeState | None:
    """Return the node for so many replicas with whole GPUs of a kind."""
    if pool.hosts_counted:
        weights = mix.weights(kind)
        if weights.hosts:
            return _DeviceSearch(pool, weights, part, kind, nodes, horizon).node(replicas)
    cpu, memory = part.cpu * replicas, part.memory * replicas
    return pool.best_node(kind, replicas * part.gpus, nodes, horizon, cpu, memory)


class _DeviceSearch:
    """One search among the devices of a kind."""

    __slots__ = ("_compare", "_horizon", "_kind", "_nodes", "_part", "_pool", "_weights")

    def __init__(
        self, pool: Pool, weights: Weights, part: "RoleShape", kind: int, nodes: int, horizon: int
    ) -> None:
        self._pool = pool
        self._weights = weights
        self._part = part
        self._kind = kind
        self._nodes = nodes
        self._horizon = horizon
        self._compare = LOOKED_AT if pool.hosts_counted and weights.hosts else 1

    def device(self, share: int) -> DeviceState | None:
        """Return the device on which a slice of this share does least harm."""
        best: tuple[int, DeviceState] | None = None
        for growth, level, whole in self._levels(share):
            if best is not None and self._compare == 1:
                break
            for device in self._opened(level) if whole else self._shared(level):
                total = growth + self._host_growth(device.node, 1, share)
                if best is None or total < best[0]:
                    best = (total, device)
        return None if best is None else best[1]

    def _levels(self, share: int) -> list[tuple[int, int, bool]]:
        """Return the levels that have room, with the cost of a slice there to the mix: the least first, then
        the fullest.

        The level is the free amount of a shared device, or for a new one GPU + the whole GPUs of its node.
        """
        weights, pool = self._weights, self._pool
        levels = [
            (weights.rest(free - share) - weights.rest(free), free, False)
            for free in pool.partial[self._horizon][self._kind]
            if free >= share
        ]
        opened = weights.rest(GPU - share)
        for count, bits in enumerate(pool.whole[self._horizon][self._kind]):
            if count and bits & self._nodes:
                growth = opened + weights.gangs(count - 1) - weights.gangs(count)
                levels.append((growth, GPU + count, True))
        return sorted(levels)

    def _shared(self, free: int) -> Iterator[DeviceState]:
        """Yield devices with exactly so much free, one per node, on nodes that will do."""
        bits = self._pool.partial[self._horizon][self._kind][free]
        devices, left, last = self._pool.devices, self._compare, None
        while bits and left:
            low = bits & -bits
            bits ^= low
            device = devices[low.bit_length() - 1]
            if device.node is not last and self._will_do(device.node, 1):
                yield device
                left -= 1
            last = device.node

    def _opened(self, level: int) -> Iterator[DeviceState]:
        """Yield an unused device of each node that has so many."""
        for node in self._with_whole(level - GPU, 1):
            yield next(
                d for d in node.devices if d.kind == self._kind and d.open and d.free[self._horizon] == GPU
            )

    def node(self, replicas: int) -> NodeState | None:
        """Return the node on which so many replicas with whole GPUs do least harm; among equals the
        fullest.
        """
        weights, needed = self._weights, replicas * self._part.gpus
        best: tuple[int, NodeState] | None = None
        for count in range(needed, len(self._pool.whole[self._horizon][self._kind])):
            growth = weights.gangs(count - needed) - weights.gangs(count)
            for node in self._with_whole(count, replicas):
                total = growth + self._host_growth(node, replicas, needed * GPU)
                if best is None or total < best[0]:
                    best = (total, node)
        return None if best is None else best[1]

    def _with_whole(self, count: int, replicas: int) -> Iterator[NodeState]:
        """Yield nodes with exactly so many unused devices that will do for the replicas."""
        left = self._compare
        for node in self._pool.each(self._pool.whole[self._horizon][self._kind][count] & self._nodes):
            if self._will_do(node, replicas):
                yield node
                left -= 1
                if not left:
                    return

    def _will_do(self, node: NodeState, replicas: int) -> bool:
        part = self._part
        return bool(node.bit & self._nodes) and node.hosts(
            part.cpu * replicas, part.memory * replicas, self._horizon
        )

    def _host_growth(self, node: NodeState, replicas: int, taken: int) -> int:
        if self._compare == 1:
            return 0
        return self._weights.host_growth(node, self._part, replicas, taken, self._horizon)
