"""Wire models of profiles, expectations and tags: learned about fingerprints, expected of jobs, recognized in
what runs.
"""

from typing import Annotated

from grus.api.wire_types.base import Convert, Derived, GpuCount, Out, Source, Timestamp
from grus.model.profiles import JobProfile, Speed


class TagOut(Out):
    """Recognized activity of a job or a GPU."""

    kind: str
    """idle, dev, training, retraining, inference or unknown."""
    at: Timestamp
    """Start time of the activity."""
    expires: Timestamp
    confidence: float = 0.0
    period: float | None = None
    """Seconds of an epoch, or of another repeating pattern."""
    stage: str = ""
    hung_since: Timestamp | None = None
    utilisation: float | None = None
    peak_memory: int | None = None
    note: str = ""


class UseOut(Out):
    """Use of GPUs at one size."""

    type: str
    gpus: GpuCount
    seconds: float
    mean_utilisation: Annotated[float | None, Source("mean")] = None
    p95_utilisation: Annotated[float | None, Source("p95")] = None
    peak_memory: Annotated[int | None, Source("memory")] = None


class SpeedOut(Out):
    """Speed at one size; `throughput` in examples a second, assuming 1,024 per step if the job does not
    report it.
    """

    type: str
    nodes: int
    gpus: int
    step_seconds: Annotated[float, Source("step")]
    throughput: float


class PairOut(Out):
    """Result of sharing a GPU with another fingerprint: a gain above 1 is a benefit."""

    other: str
    gain: float
    times: int
    at: Timestamp


class ShortOut(Out):
    """Allocation that ran out of memory (OOM): this many GPUs with this much memory each."""

    gpus: int
    memory: int
    how: Annotated[str, Convert(" ".join)] = ""
    """Strategies that were switched on."""


class RunOut(Out):
    """One job of the fingerprint."""

    job: str
    at: Timestamp
    phase: str
    seconds: float
    peak_memory: int | None = None
    host_memory: int | None = None
    cpu: float | None = None
    energy: float | None = None
    kind: str = "unknown"
    period: float | None = None
    data: str = ""
    new_data: bool = False
    """True if others had run before, and none of them on these data."""
    uses: tuple[UseOut, ...] = ()


def _speeds(profile: JobProfile) -> list[Speed]:
    return sorted(profile.speeds, key=lambda speed: (speed.type, speed.gpus))


class ProfileOut(Out):
    """Profile of all jobs of one fingerprint. Unmeasured values are null."""

    fingerprint: str
    name: str = ""
    user: Annotated[str, Derived(lambda profile: profile.user or "")] = ""
    command: str = ""
    image: str = ""
    runs: Annotated[int, Source("count")] = 0
    """Total number of jobs; the last ones are in `last`."""
    kind: str = "unknown"
    period: float | None = None
    peak_memory: int | None = None
    host_memory: int | None = None
    mean_utilisation: float | None = None
    p95_utilisation: float | None = None
    duration: float | None = None
    """Usual duration of a run in seconds."""
    energy: float | None = None
    """Usual energy of a run in joules."""
    uses: tuple[UseOut, ...] = ()
    speeds: Annotated[tuple[SpeedOut, ...], Derived(_speeds)] = ()
    pairs: tuple[PairOut, ...] = ()
    short: tuple[ShortOut, ...] = ()
    """Allocations that ran out of memory (OOM); no job of this fingerprint gets them again."""
    data: tuple[str, ...] = ()
    last: Annotated[tuple[RunOut, ...], Derived(lambda profile: profile.runs[::-1])] = ()
    updated_at: Timestamp | None = None


class SizeOut(Out):
    gpus: int
    type: str
    throughput: float
    speedup: float
    """Speed-up against the smallest size that was run on this type."""


class ExpectedOut(Out):
    """Expected resource use and duration of a job, from earlier runs."""

    fingerprint: str
    same_code: bool
    """True if from the same code; otherwise from an earlier version of the code."""
    runs: int
    new_data: bool = False
    memory: int | None = None
    host_memory: int | None = None
    duration: float | None = None
    shortest: float | None = None
    longest: float | None = None
    utilisation: float | None = None
    p95_utilisation: float | None = None
    kind: str = "unknown"
    period: float | None = None
    energy: float | None = None
    sizes: tuple[SizeOut, ...] = ()


class LearnedOut(Out):
    """Learned data about one job: its fingerprint, the fingerprint's profile, and the expectation."""

    job: str
    fingerprint: str
    profile: ProfileOut | None = None
    expected: ExpectedOut | None = None
