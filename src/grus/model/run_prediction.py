"""Expected usage of the next job of a fingerprint, from the runs before it. Pure.

No value here is a guarantee and none is enforced: it is shown to users when they submit or look.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from grus.model.activity_labels import WorkloadKind
from grus.model.identifiers import JobId
from grus.model.profiles import JobProfile, Speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A size that jobs of it were run at."""

    gpus: int
    """Whole GPUs."""
    type: str
    throughput: float
    """Examples a second."""
    speedup: float
    """Against the smallest size that was run on this type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    fingerprint: str
    same_code: bool
    """Otherwise it is what an earlier version of the code did."""
    runs: int
    """Earlier jobs that it rests on."""
    new_data: bool = False
    memory: int | None = None
    """Most bytes on one GPU."""
    host_memory: int | None = None
    duration: float | None = None
    """Seconds, as a rule; the shortest and the longest that were seen:"""
    shortest: float | None = None
    longest: float | None = None
    utilisation: float | None = None
    """Mean, 0 to 1 of the GPUs that it held."""
    p95_utilisation: float | None = None
    kind: WorkloadKind = WorkloadKind.UNKNOWN
    period: float | None = None
    energy: float | None = None
    """Joules, as a rule."""
    sizes: tuple[Size, ...] = ()


def expected(
    profile: JobProfile, *, same_code: bool, new_data: bool, but: JobId | None = None
) -> Expected | None:
    """Return the expected usage, from all runs except this job's own; None if there are none."""
    before = replace(profile, runs=tuple(run for run in profile.runs if run.job != but))
    if not before.runs:
        return None
    return Expected(
        fingerprint=profile.fingerprint,
        same_code=same_code,
        runs=profile.count - (len(profile.runs) - len(before.runs)),
        new_data=new_data,
        memory=before.peak_memory,
        host_memory=before.host_memory,
        duration=before.duration,
        shortest=min(before.durations, default=None),
        longest=max(before.durations, default=None),
        utilisation=before.mean_utilisation,
        p95_utilisation=before.p95_utilisation,
        kind=before.kind,
        period=before.period,
        energy=before.energy,
        sizes=sizes(profile.speeds),
    )


def sizes(speeds: Iterable[Speed]) -> tuple[Size, ...]:
    """Each size at its best batch and placement, by type and size."""
    best: dict[tuple[str, int], float] = {}
    for one in speeds:
        key = (one.type, one.gpus)
        best[key] = max(best.get(key, 0.0), one.throughput)
    smallest = {kind: best[kind, gpus] for kind, gpus in sorted(best, reverse=True)}
    return tuple(
        Size(gpus=gpus, type=kind, throughput=best[kind, gpus], speedup=best[kind, gpus] / smallest[kind])
        for kind, gpus in sorted(best)
    )
