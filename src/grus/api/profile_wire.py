"""Wire models of profiles, expectations and tags: learned about fingerprints, expected of jobs, recognized in
what runs.
"""

from collections.abc import Iterable

from grus.api.units import gpu_number
from grus.api.wire_types.base import Out
from grus.api.wire_types.timestamps import maybe_rfc3339, rfc3339
from grus.model.activity_labels import Tag
from grus.model.profiles import GpuUsage, JobProfile, Pair, ProfiledRun, Speed
from grus.model.run_prediction import Expected


class TagOut(Out):
    """Recognized activity of a job or a GPU."""

    kind: str
    """idle, dev, training, retraining, inference or unknown."""
    at: str
    """Start time of the activity."""
    expires: str
    confidence: float = 0.0
    period: float | None = None
    """Seconds of an epoch, or of another repeating pattern."""
    stage: str = ""
    hung_since: str | None = None
    utilisation: float | None = None
    peak_memory: int | None = None
    note: str = ""


class UseOut(Out):
    """Use of GPUs at one size."""

    type: str
    gpus: float | int
    seconds: float
    mean_utilisation: float | None = None
    p95_utilisation: float | None = None
    peak_memory: int | None = None


class SpeedOut(Out):
    """Speed at one size; `throughput` in examples a second, assuming 1,024 per step if the job does not
    report it.
    """

    type: str
    nodes: int
    gpus: int
    step_seconds: float
    throughput: float


class PairOut(Out):
    """Result of sharing a GPU with another fingerprint: a gain above 1 is a benefit."""

    other: str
    gain: float
    times: int
    at: str


class ShortOut(Out):
    """Allocation that ran out of memory (OOM): this many GPUs with this much memory each."""

    gpus: int
    memory: int
    how: str = ""
    """Strategies that were switched on."""


class RunOut(Out):
    """One job of the fingerprint."""

    job: str
    at: str
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


class ProfileOut(Out):
    """Profile of all jobs of one fingerprint. Unmeasured values are null."""

    fingerprint: str
    name: str = ""
    user: str = ""
    command: str = ""
    image: str = ""
    runs: int = 0
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
    speeds: tuple[SpeedOut, ...] = ()
    pairs: tuple[PairOut, ...] = ()
    short: tuple[ShortOut, ...] = ()
    """Allocations that ran out of memory (OOM); no job of this fingerprint gets them again."""
    data: tuple[str, ...] = ()
    last: tuple[RunOut, ...] = ()
    updated_at: str | None = None


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


# ------------------------------------------------------------------------------------------ model to wire


def tag_out(tag: Tag) -> TagOut:
    return TagOut(
        kind=tag.kind.value,
        at=rfc3339(tag.at),
        expires=rfc3339(tag.expires),
        confidence=tag.confidence,
        period=tag.period,
        stage=tag.stage.value,
        hung_since=maybe_rfc3339(tag.hung_since),
        utilisation=tag.utilisation,
        peak_memory=tag.peak_memory,
        note=tag.note,
    )


def profile_out(profile: JobProfile) -> ProfileOut:
    return ProfileOut(
        fingerprint=profile.fingerprint,
        name=profile.name,
        user=profile.user or "",
        command=profile.command,
        image=profile.image,
        runs=profile.count,
        kind=profile.kind.value,
        period=profile.period,
        peak_memory=profile.peak_memory,
        host_memory=profile.host_memory,
        mean_utilisation=profile.mean_utilisation,
        p95_utilisation=profile.p95_utilisation,
        duration=profile.duration,
        energy=profile.energy,
        uses=_uses_out(profile.uses),
        speeds=tuple(_speed_out(one) for one in sorted(profile.speeds, key=lambda s: (s.type, s.gpus))),
        pairs=tuple(_pair_out(one) for one in profile.pairs),
        short=tuple(
            ShortOut(gpus=one.gpus, memory=one.memory, how=" ".join(one.how)) for one in profile.short
        ),
        data=profile.data,
        last=tuple(run_out(one) for one in reversed(profile.runs)),
        updated_at=rfc3339(profile.updated_at),
    )


def _uses_out(uses: Iterable[GpuUsage]) -> tuple[UseOut, ...]:
    return tuple(
        UseOut(
            type=use.type,
            gpus=gpu_number(use.gpus),
            seconds=use.seconds,
            mean_utilisation=use.mean,
            p95_utilisation=use.p95,
            peak_memory=use.memory,
        )
        for use in uses
    )


def _speed_out(one: Speed) -> SpeedOut:
    return SpeedOut(
        type=one.type, nodes=one.nodes, gpus=one.gpus, step_seconds=one.step, throughput=one.throughput
    )


def _pair_out(one: Pair) -> PairOut:
    return PairOut(other=one.other, gain=one.gain, times=one.times, at=rfc3339(one.at))


def run_out(run: ProfiledRun) -> RunOut:
    return RunOut(
        job=run.job,
        at=rfc3339(run.at),
        phase=run.phase.value,
        seconds=run.seconds,
        peak_memory=run.peak_memory,
        host_memory=run.host_memory,
        cpu=run.cpu,
        energy=run.energy,
        kind=run.kind.value,
        period=run.period,
        data=run.data,
        new_data=run.new_data,
        uses=_uses_out(run.uses),
    )


def expected_out(one: Expected) -> ExpectedOut:
    return ExpectedOut(
        fingerprint=one.fingerprint,
        same_code=one.same_code,
        runs=one.runs,
        new_data=one.new_data,
        memory=one.memory,
        host_memory=one.host_memory,
        duration=one.duration,
        shortest=one.shortest,
        longest=one.longest,
        utilisation=one.utilisation,
        p95_utilisation=one.p95_utilisation,
        kind=one.kind.value,
        period=one.period,
        energy=one.energy,
        sizes=tuple(
            SizeOut(gpus=size.gpus, type=size.type, throughput=size.throughput, speedup=size.speedup)
            for size in one.sizes
        ),
    )
