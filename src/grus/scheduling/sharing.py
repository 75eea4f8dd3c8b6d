"""Slices of one GPU: where a fraction or a memory slice goes.

The fullest shared device that still has room is taken first, so that whole GPUs stay whole; a new one is
opened on the node that has the fewest of them left.
"""

from typing import TYPE_CHECKING

from grus.model.resources import GPU
from grus.scheduling.topology import DeviceState, Pool

if TYPE_CHECKING:
    from grus.scheduling.shapes import Part


def slice_share(part: "Part", device_memory: int) -> int:
    """What a slice takes of a device with that memory, in micro-GPUs."""
    if part.memory_slice:
        return -(-part.memory_slice * GPU // device_memory) if device_memory else GPU + 1
    return part.share


def best_device(pool: Pool, part: "Part", nodes: int, horizon: int) -> tuple[DeviceState, int] | None:
    """The device for one slice, and what it takes there."""
    for kind in part.kinds:
        share = slice_share(part, pool.kinds[kind][1])
        if share > GPU:
            continue
        device = _shared(pool, part, kind, share, nodes, horizon) or _fresh(pool, part, kind, nodes, horizon)
        if device is not None:
            return device, share
    return None


def _shared(pool: Pool, part: "Part", kind: int, share: int, nodes: int, horizon: int) -> DeviceState | None:
    partial = pool.partial[horizon][kind]
    for free in sorted(amount for amount in partial if amount >= share):
        bits = partial[free]
        while bits:
            low = bits & -bits
            device = pool.devices[low.bit_length() - 1]
            if device.node.bit & nodes and device.node.hosts(part.cpu, part.memory, horizon):
                return device
            bits ^= low
    return None


def _fresh(pool: Pool, part: "Part", kind: int, nodes: int, horizon: int) -> DeviceState | None:
    node = pool.best_node(kind, 1, nodes, horizon, part.cpu, part.memory)
    if node is None:
        return None
    return next(d for d in node.devices if d.kind == kind and d.open and d.free[horizon] == GPU)
