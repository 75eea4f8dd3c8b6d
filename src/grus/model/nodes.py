"""Pool: nodes, their GPUs, and the health of each. Facts only; the jobs record their allocations."""

from dataclasses import dataclass
from enum import StrEnum

from grus.model.identifiers import DeviceId, NodeId, UserName


class Health(StrEnum):
    """Health of a device: whether it may be allocated."""

    HEALTHY = "healthy"
    DIRTY = "dirty"
    """Memory of a dead job is still allocated: the device is not allocated until it is verified clean."""
    QUARANTINED = "quarantined"
    """Removed from use by a person or by repeated faults."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU."""

    id: DeviceId
    type: str
    memory: int
    """Bytes."""
    island: int = 0
    """GPUs of one node with the same number reach each other by NVLink."""
    speed: float = 1.0
    """Relative to other types: `train` prefers the fastest type, `dev` the slowest that fits."""
    health: Health = Health.HEALTHY
    outside: str = ""
    """Process that uses it outside Grus ("pid 4711 python, user 1000"); such a device counts as busy."""

    @property
    def usable(self) -> bool:
        return self.health is Health.HEALTHY and not self.outside


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A node that is being emptied for maintenance."""

    message: str = ""
    """Reason and expected end, for the users whose jobs have to leave."""
    by: UserName | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Cordon:
    """A node that takes no new work until its cordon is deleted."""

    node: NodeId
    drain: Drain | None = None
    """Set if the node is to be emptied, too."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine (or, in a virtual pool, a virtual one)."""

    id: NodeId
    devices: tuple[Device, ...]
    labels: tuple[tuple[str, str], ...] = ()
    cpu: int | None = None
    """Thousandths of a core; None where it is not counted (virtual nodes share one machine)."""
    memory: int | None = None
    """Bytes of host memory; None where it is not counted."""
    cordoned: bool = False
    """Takes no new work; running work continues, unless the node is drained."""
    drain: Drain | None = None
    """Set while its jobs have to leave; such a node is cordoned."""
