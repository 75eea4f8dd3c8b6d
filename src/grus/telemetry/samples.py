"""What is measured of GPUs and of jobs' processes, whichever source it comes from.

A sample carries the moment at which it was true, not the one at which it was asked for. What a source does
not measure is absent, never zero; what it has lost is named in `lost`, so that nobody takes silence for rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId


class Measure(StrEnum):
    """What one number says. The three that are never to be mixed up: `memory_time`, `memory`, `active`."""

    UTILISATION = "utilisation"
    """Part of the time in which any kernel ran, 0 to 1."""
    ACTIVE = "active"
    """Part of the compute units at work, 0 to 1: real activity."""
    MEMORY_TIME = "memory_time"
    """Part of the time in which the memory interface was busy, 0 to 1."""
    MEMORY = "memory"
    """Bytes of GPU memory that are taken."""
    POWER = "power"
    """Watts."""
    TEMPERATURE = "temperature"
    """Degrees Celsius."""
    CPU = "cpu"
    """Cores in use."""
    HOST_MEMORY = "host_memory"
    """Bytes."""
    DISK_READ = "disk_read"
    DISK_WRITE = "disk_write"
    NETWORK_IN = "network_in"
    NETWORK_OUT = "network_out"
    """The last four in bytes a second."""
    HELD = "held"
    """GPUs that jobs hold, of a queue or of the pool."""
    DEMAND = "demand"
    """GPUs that jobs hold or could use now."""
    CAPACITY = "capacity"
    """GPUs that are there and may be used."""
    STRANDED = "stranded"
    """GPUs that are free, and of which no job that waits could use any as they lie."""


class Subject(NamedTuple):
    """Whose number it is: a GPU (or a MIG instance of it), a worker's own processes, or a whole machine."""

    node: NodeId
    device: DeviceId | None = None
    instance: str = ""
    """Of a GPU that is partitioned (MIG): its number; empty for the whole GPU."""
    job: JobId | None = None
    worker: WorkerId | None = None
    """Set where the numbers are those of a worker's own processes (`device` is empty then)."""


@dataclass(frozen=True, slots=True)
class Sample:
    subject: Subject
    at: float
    values: Mapping[Measure, float]
    holder: str = ""
    """Who is on the GPU, in the source's own words (namespace/pod); empty where it does not say."""


class Lost(NamedTuple):
    """Something that was measured before and is not any more."""

    what: str
    """A source, a node or a GPU, by name."""
    why: str
    since: float


class Fault(NamedTuple):
    """A GPU's driver has told a new error (NVIDIA's XID)."""

    subject: Subject
    at: float
    code: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What a source has new since it was last asked."""

    samples: tuple[Sample, ...] = ()
    lost: tuple[Lost, ...] = field(default=())
    """All that is missing now."""
    faults: tuple[Fault, ...] = ()
    """New ones only: a driver repeats its last error for ever."""


class Source(Protocol):
    """Where samples come from. `sample` may take as long as its time-out, never longer; it never raises."""

    @property
    def shortest(self) -> float:
        """Seconds between two fresh values: periods below twice that cannot be seen, nor are they guessed."""
        ...

    def sample(self, now: float) -> Batch: ...

    def close(self) -> None: ...
