"""Interface of a source of devices for an engine: the current pool, and the use of its devices."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from grus.model.identifiers import DeviceId
from grus.model.nodes import Node


@dataclass(frozen=True, slots=True)
class Reading:
    """A driver's report of one GPU at one moment."""

    id: DeviceId
    type: str
    memory: int
    """Bytes in all."""
    used: int
    """Bytes that are taken, by whomever."""
    utilisation: float | None
    """0 to 1."""
    processes: tuple[tuple[int, int], ...]
    """(pid, bytes) of each process that has the GPU open."""
    links: tuple[DeviceId, ...] = ()
    """GPUs that it reaches by NVLink."""
    fault: str = ""
    """Reason why it cannot be used, in the driver's words; "" if it can."""
    memory_time: float | None = None
    """Part of the time in which its memory interface was busy, 0 to 1; not how much is taken."""
    power: float | None = None
    """Watts."""
    energy: float | None = None
    """Joules since the driver was loaded; restarts at zero with it."""
    temperature: float | None = None
    """Degrees Celsius."""
    minor: int | None = None
    """Number of its device file: /dev/nvidia0 has 0; None where the driver does not say."""


Owned = Callable[[Sequence[Reading]], frozenset[int]]
"""Function that returns the processes in these readings that belong to Grus's workers.

It is called from the source's own thread.
"""


class DeviceSource(Protocol):
    """A pool of GPUs. All methods may be called from any thread; none waits for a driver."""

    @property
    def virtual(self) -> bool:
        """Return whether the GPUs are virtual, so that a process's memory counts as GPU memory."""
        ...

    def open(self, owned: Owned) -> None:
        """Begin to measure. Idempotent after `close`."""
        ...

    def nodes(self, held: Collection[DeviceId]) -> tuple[Node, ...]:
        """The pool now; `held` are the devices that Grus's living workers are bound to."""
        ...

    def readings(self) -> tuple[Reading, ...]:
        """The newest readings; empty where nothing is measured."""
        ...

    def look_again(self) -> None:
        """Something has ended: measure soon instead of at the next turn."""
        ...

    def mechanisms(self) -> dict[str, str]:
        """Describe this source's method of measurement, for people."""
        ...

    def close(self) -> None: ...
