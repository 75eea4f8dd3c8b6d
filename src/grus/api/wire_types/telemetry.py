"""Wire models of telemetry: the newest values, and series of the past."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from grus.api.wire_types.base import Derived, Out, Source, Timestamp


class FiguresOut(Out):
    """Newest sample of one subject. Unmeasured values are absent, never 0."""

    node: Annotated[str, Source("subject.node")]
    gpu: Annotated[str, Derived(lambda sample: sample.subject.device or "")] = ""
    instance: Annotated[str, Source("subject.instance")] = ""
    """Instance of a GPU that is partitioned (MIG)."""
    job: Annotated[str, Derived(lambda sample: sample.subject.job or "")] = ""
    worker: Annotated[str, Derived(lambda sample: sample.subject.worker or "")] = ""
    at: Timestamp
    values: Mapping[str, float] = Field(default_factory=dict)
    """Values by measure: shares are 0 to 1, amounts are bytes, watts, cores or bytes a second."""


class LostOut(Out):
    """Subject that was measured before and no longer is."""

    what: str
    why: str
    since: Timestamp


class FaultOut(Out):
    """Last error that a GPU's driver has reported (NVIDIA's XID)."""

    node: Annotated[str, Source("subject.node")]
    gpu: Annotated[str, Derived(lambda fault: fault.subject.device or "")]
    code: int
    at: Timestamp


class TelemetryOut(Out):
    """Newest values of GPUs and of the workers that the caller sees."""

    at: Timestamp
    every: float
    """Seconds between two samples."""
    shortest_period: Annotated[float, Derived(lambda found: 2 * found.every)]
    """Shortest detectable period in seconds at this rate."""
    figures: Annotated[Sequence[FiguresOut], Source("samples")] = ()
    lost: Sequence[LostOut] = ()
    faults: Sequence[FaultOut] = ()
    recorded_bytes: Annotated[int, Source("size")] = 0
    trouble: str = ""
    """Error of the recorder; empty while it works."""


class SeriesOut(Out):
    """Means (or maxima) of each `step` seconds from `start` on; null if unknown."""

    of: str
    name: str = ""
    measure: str
    start: str
    step: float
    values: Sequence[float | None]
