"""How much stands free that nobody who waits can use as it lies. Pure, and only looked at, never decided by.

A free GPU is stranded if no job that waits could use any of it: what is left of it is smaller than the slices
that they ask for, or it has too few free neighbours on its node for those who need them side by side. It
counts only while at least one job that waits asks for no more than is free in all: else it is not the place
that is wanting, but the amount.
"""

from typing import TYPE_CHECKING, NamedTuple

from grus.model.resources import GPU
from grus.scheduling.fragmentation import slice_share
from grus.scheduling.topology import NOW

if TYPE_CHECKING:
    from grus.scheduling.shapes import Part, Shape
    from grus.scheduling.snapshot import Snapshot
    from grus.scheduling.topology import DeviceState


class _Need(NamedTuple):
    """What one replica of a job that waits asks of a node."""

    nodes: int
    part: "Part"
    together: int
    """Whole GPUs that must be free on the same node; 0 for a slice."""


def stranded(snapshot: "Snapshot") -> int:
    """Micro-GPUs. Ask after `advance`, so that those whose time has come are in line."""
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
