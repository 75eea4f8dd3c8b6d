"""Telemetry on the wire: the newest figures, and series of the past."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from grus.api.out import Out


class FiguresOut(Out):
    """One subject's newest sample. What it does not measure is absent, never 0."""

    node: str
    gpu: str = ""
    instance: str = ""
    """Of a GPU that is partitioned (MIG)."""
    job: str = ""
    worker: str = ""
    at: str
    values: Mapping[str, float] = Field(default_factory=dict)
    """By measure: shares are 0 to 1, amounts are bytes, watts, cores or bytes a second."""


class LostOut(Out):
    """Something that was measured before and is not any more."""

    what: str
    why: str
    since: str


class FaultOut(Out):
    """The last error that a GPU's driver has told (NVIDIA's XID)."""

    node: str
    gpu: str
    code: int
    at: str


class TelemetryOut(Out):
    """The newest figures of GPUs and of the workers that the caller sees."""

    at: str
    every: float
    """Seconds between two samples."""
    shortest_period: float
    """Seconds: rhythms faster than that cannot be seen at this rate."""
    figures: Sequence[FiguresOut] = ()
    lost: Sequence[LostOut] = ()
    faults: Sequence[FaultOut] = ()
    recorded_bytes: int = 0
    trouble: str = ""
    """Of the recorder; empty while it is well."""


class SeriesOut(Out):
    """Means (or maxima) of each `step` seconds from `start` on; null where nothing is known."""

    of: str
    name: str = ""
    measure: str
    start: str
    step: float
    values: Sequence[float | None]
