"""Stranded GPUs: the free GPUs that no waiting job can use in their present places. Pure; only reported,
never used by decisions.

A free GPU is stranded if no waiting job could use any of it: its free part is smaller than the requested
slices, or it has too few free neighbors on its node for the jobs that need them side by side. It counts only
while at least one waiting job requests no more than is free in all: else the amount is the problem, not the
placement.
"""

from typing import TYPE_CHECKING, NamedTuple

from grus.model.resources import GPU
from grus.scheduler.placement.fragmentation import slice_share
from grus.scheduler.state.node_capacity_index import NOW

if TYPE_CHECKING:
    from grus.scheduler.state.node_capacity_index import DeviceState
    from grus.scheduler.state.request_shapes import RoleShape, Shape
    from grus.scheduler.state.snapshot import Snapshot


class _Need(NamedTuple):
    """Node requirements of one replica of a waiting job."""

    nodes: int
    part: "RoleShape"
    together: int
    """Whole GPUs that must be free on the same node; 0 for a slice."""


def stranded(snapshot: "Snapshot") -> int:
    """Return the stranded micro-GPUs. Call after `advance`, so that jobs whose back-off has passed are in
    line.
    """
    pool = snapshot.pool
    shapes = {shape for queue in snapshot.tree.all() for shape in queue.line.shapes}
    if not any(0 < shape.minimum <= pool.free[NOW] for shape in shapes):
        return 0
    needs = {need for shape in shapes for need in _needs(shape)}
    return sum(
        device.free[NOW]
        for device in pool.devices
        if device.open and device.free[NOW] > 0 and not any(_usable(device, need) for need in needs)
    )


def _needs(shape: "Shape") -> list[_Need]:
    return [
        _Need(shape.nodes, part, part.gpus * (part.low if shape.one_node else 1))
        for part in shape.parts
        if part.unit
    ]


def _usable(device: "DeviceState", need: _Need) -> bool:
    if not device.node.bit & need.nodes or device.kind not in need.part.kinds:
        return False
    if need.together:
        whole = device.node.counts[NOW].get(device.kind, 0)
        return device.free[NOW] == GPU and whole >= need.together
    return device.free[NOW] >= slice_share(need.part, device.memory)
