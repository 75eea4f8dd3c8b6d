"""Wire models of telemetry: the newest values, and series of the past."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from grus.api.wire_types.base import Out


class FiguresOut(Out):
    """Newest sample of one subject. Unmeasured values are absent, never 0."""

    node: str
    gpu: str = ""
    instance: str = ""
    """Instance of a GPU that is partitioned (MIG)."""
    job: str = ""
    worker: str = ""
    at: str
    values: Mapping[str, float] = Field(default_factory=dict)
    """Values by measure: shares are 0 to 1, amounts are bytes, watts, cores or bytes a second."""


class LostOut(Out):
    """Subject that was measured before and no longer is."""

    what: str
    why: str
    since: str


class FaultOut(Out):
    """Last error that a GPU's driver has reported (NVIDIA's XID)."""

    node: str
    gpu: str
    code: int
    at: str


class TelemetryOut(Out):
    """Newest values of GPUs and of the workers that the caller sees."""

    at: str
    every: float
    """Seconds between two samples."""
    shortest_period: float
    """Shortest detectable period in seconds at this rate."""
    figures: Sequence[FiguresOut] = ()
    lost: Sequence[LostOut] = ()
    faults: Sequence[FaultOut] = ()
    recorded_bytes: int = 0
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
