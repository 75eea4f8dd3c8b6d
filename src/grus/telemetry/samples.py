"""Measurements of GPUs and of jobs' processes, independent of their source.

A sample carries the time at which it was true, not the time of the request. A value that a source does not
measure is absent, never zero; lost subjects are named in `lost`, so that silence is not read as idleness.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId


class Measure(StrEnum):
    """Meaning of a number. The three that are never to be mixed up: `memory_time`, `memory`, `active`."""

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
    """Subject of a number: a GPU (or a MIG instance of it), a worker's own processes, or a whole machine."""

    node: NodeId
    device: DeviceId | None = None
    instance: str = ""
    """Number of the instance of a GPU that is partitioned (MIG); empty for the whole GPU."""
    job: JobId | None = None
    worker: WorkerId | None = None
    """Set where the numbers are those of a worker's own processes (`device` is empty then)."""


@dataclass(frozen=True, slots=True)
class Sample:
    subject: Subject
    at: float
    values: Mapping[Measure, float]
    holder: str = ""
    """User of the GPU, in the source's own words (namespace/pod); empty if the source does not report it."""


class LostMeasure(NamedTuple):
    """Something that was measured before and is not any more."""

    what: str
    """A source, a node or a GPU, by name."""
    why: str
    since: float


class Fault(NamedTuple):
    """A GPU's driver has reported a new error (NVIDIA's XID)."""

    subject: Subject
    at: float
    code: int


@dataclass(frozen=True, slots=True)
class Batch:
    """News of a source since the last call."""

    samples: tuple[Sample, ...] = ()
    lost: tuple[LostMeasure, ...] = field(default=())
    """All that is missing now."""
    faults: tuple[Fault, ...] = ()
    """New ones only: a driver repeats its last error indefinitely."""


class SampleSource(Protocol):
    """Source of samples. `sample` may take as long as its time-out, never longer; it never raises."""

    @property
    def shortest(self) -> float:
        """Seconds between two fresh values: periods below twice that cannot be seen, nor are they guessed."""
        ...

    def sample(self, now: float) -> Batch: ...

    def close(self) -> None: ...
