"""Figures of a profile follow from its runs; what was not measured is None, never zero."""

from dataclasses import replace

import pytest

from grus.model.activity_labels import WorkloadKind
from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from grus.model.profiles import BINS, GpuUsage, JobProfile, ProfiledRun, Speed


def levels(**seconds: float) -> tuple[float, ...]:
    """Seconds at utilisations like `u95=3` (0.95 and what is above, below 1)."""
    found = [0.0] * BINS
    for name, value in seconds.items():
        found[int(name[1:]) * BINS // 100] = value
    return tuple(found)


def a_use(gpus: int = 1, **seconds: float) -> GpuUsage:
    busy = sum(value * (int(name[1:]) / 100 + 0.025) for name, value in seconds.items())
    return GpuUsage(
        type="A100", gpus=gpus, seconds=sum(seconds.values()), busy=busy, levels=levels(**seconds) or ()
    )


def a_profile(*runs: ProfiledRun) -> JobProfile:
    return JobProfile(fingerprint="f", runs=runs)


def a_run(
    job: str = "j1", phase: Phase = Phase.SUCCEEDED, seconds: float = 10.0, *uses: GpuUsage
) -> ProfiledRun:
    return ProfiledRun(job=JobId(job), at=0.0, phase=phase, seconds=seconds, uses=uses)


def test_what_nobody_measured_is_none() -> None:
    profile = a_profile(a_run("j1", Phase.RUNNING, 5.0, GpuUsage(type="A100", gpus=1, seconds=5.0)))
    assert profile.mean_utilisation is None
    assert profile.p95_utilisation is None
    assert profile.peak_memory is None
    assert profile.duration is None
    assert profile.energy is None
    assert profile.kind is WorkloadKind.UNKNOWN


def test_use_of_all_runs_is_weighed_by_time() -> None:
    profile = a_profile(
        a_run("j1", Phase.FAILED, 90, a_use(u90=90)), a_run("j2", Phase.FAILED, 10, a_use(u10=10))
    )
    assert profile.mean_utilisation == pytest.approx(0.9 * 0.925 + 0.1 * 0.125)
    assert profile.p95_utilisation == pytest.approx(0.95, abs=0.05)


def test_a_rare_peak_does_not_make_the_95th_percentile() -> None:
    assert a_use(u10=96, u95=4).p95 == pytest.approx(0.15, abs=0.05)
    assert a_use(u10=90, u95=10).p95 == pytest.approx(0.975, abs=0.025)


def test_sizes_are_kept_apart_and_the_same_size_is_put_together() -> None:
    one, two = replace(a_use(1, u90=10), memory=5), replace(a_use(2, u50=10), memory=7)
    profile = a_profile(a_run("j1", Phase.SUCCEEDED, 20, one, two), a_run("j2", Phase.SUCCEEDED, 10, one))
    assert [(use.gpus, use.seconds, use.memory) for use in profile.uses] == [(1, 20, 5), (2, 10, 7)]
    assert profile.peak_memory == 7


def test_the_usual_duration_is_the_median_of_the_runs_that_succeeded() -> None:
    runs = [a_run(f"j{n}", Phase.SUCCEEDED, seconds) for n, seconds in enumerate((10.0, 12.0, 500.0))]
    profile = a_profile(*runs, a_run("j8", Phase.FAILED, 1.0), a_run("j9", Phase.RUNNING, 2.0))
    assert profile.duration == 12.0


def test_kind_and_period_are_those_last_recognised() -> None:
    first = replace(a_run("j1"), kind=WorkloadKind.TRAINING, period=3.0)
    profile = a_profile(first, replace(a_run("j2"), kind=WorkloadKind.IDLE), a_run("j3"))
    assert profile.kind is WorkloadKind.IDLE
    assert profile.period == 3.0


def test_throughput_counts_the_examples_of_all_gpus() -> None:
    assert Speed(type="A100", nodes=1, gpus=4, local=16, step=0.5).throughput == 128
