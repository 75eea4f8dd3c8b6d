"""The pool: nodes, their GPUs, and the health of each. Facts only; who holds what is on the jobs."""

from dataclasses import dataclass
from enum import StrEnum

from grus.model.identifiers import DeviceId, NodeId


class Health(StrEnum):
    """What may be done with a device."""

    HEALTHY = "healthy"
    DIRTY = "dirty"
    """Memory of a dead job is still held: never handed out until proven clean."""
    QUARANTINED = "quarantined"
    """Taken out by a person or by repeated faults."""


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
    """Who uses it outside Grus ("pid 4711 python, user 1000"); such a device counts as busy."""

    @property
    def usable(self) -> bool:
        return self.health is Health.HEALTHY and not self.outside


@dataclass(frozen=True, slots=True)
class Node:
    """A machine (or, in a virtual pool, a pretended one)."""

    id: NodeId
    devices: tuple[Device, ...]
    labels: tuple[tuple[str, str], ...] = ()
    cpu: int | None = None
    """Thousandths of a core; None where it is not counted (virtual nodes share one machine)."""
    memory: int | None = None
    """Bytes of host memory; None where it is not counted."""
    cordoned: bool = False
    """Takes no new work; what runs there goes on."""
