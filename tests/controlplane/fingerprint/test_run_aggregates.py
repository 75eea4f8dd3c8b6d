"""Samples add up to what a job took; gaps count for nothing, and what nobody measures is None."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from grus.controlplane.fingerprint.run_aggregates import LONGEST_GAP, RunFigures
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import DeviceId, NodeId, WorkerId
from grus.model.jobs import Job, Launch, Phase, Seat, worker_id
from grus.model.profiles import ProfiledRun
from grus.model.resources import GPU
from grus.telemetry.samples import Measure, Sample, Subject
from tests.scheduler.builders import a_job

TYPES = {DeviceId(f"n-{number}"): "A100" for number in range(8)}
N = NodeId("n")


def running(gpus: int = 1, share: int = GPU) -> Job:
    seats = tuple(Seat("worker", i, N, (DeviceId(f"n-{i}"),), share) for i in range(gpus))
    job = a_job("job", gpus=gpus)
    spec = replace(job.spec, launch=Launch.PER_GPU)
    return replace(job, spec=spec, phase=Phase.RUNNING, attempt=1, seats=seats, started_at=0.0)


def of_worker(job: Job, at: float, number: int = 0, **values: float) -> Sample:
    worker = WorkerId(worker_id(job.id, job.attempt, job.seats[number]))
    return Sample(Subject(N, job=job.id, worker=worker), at, measured(values))


def of_gpu(at: float, number: int = 0, **values: float) -> Sample:
    return Sample(Subject(N, DeviceId(f"n-{number}")), at, measured(values))


def measured(values: Mapping[str, float]) -> dict[Measure, float]:
    return {Measure[name.upper()]: value for name, value in values.items()}


class Watched:
    """A job whose samples come one a second."""

    def __init__(self, job: Job, run: ProfiledRun | None = None) -> None:
        self.job = job
        self.figures = RunFigures(run or ProfiledRun(job=job.id, at=0.0))

    def take(self, *samples: Sample) -> None:
        self.figures.take(self.job, samples, TYPES)

    @property
    def run(self) -> ProfiledRun:
        return self.figures.so_far(self.job, 100.0, 100.0)


def test_use_is_weighed_by_the_time_that_it_lasted() -> None:
    watched = Watched(running())
    for at in (0.0, 1.0, 2.0, 3.0, 13.0):
        watched.take(of_worker(watched.job, at, utilisation=0.9 if at == 13.0 else 0.1))
    [use] = watched.run.uses
    assert use.seconds == 13.0
    assert use.mean == pytest.approx((3 * 0.1 + 10 * 0.9) / 13)
    assert (use.type, use.gpus) == ("A100", GPU)


def test_a_sample_seen_twice_counts_once_and_a_gap_for_nothing() -> None:
    watched = Watched(running())
    for at in (0.0, 1.0, 1.0, 1.0, 2 + LONGEST_GAP, 3 + LONGEST_GAP):
        watched.take(of_worker(watched.job, at, utilisation=0.5))
    assert watched.run.uses[0].seconds == 2.0


def test_what_nobody_measures_is_none() -> None:
    watched = Watched(running())
    for at in (0.0, 1.0):
        watched.take(of_worker(watched.job, at, cpu=0.5))
    [use] = watched.run.uses
    assert use.mean is None
    assert use.memory is None
    assert watched.run.energy is None
    assert watched.run.host_memory is None
    assert watched.run.cpu == pytest.approx(0.5)


def test_host_memory_is_that_of_all_workers_at_once() -> None:
    watched = Watched(running(2))
    watched.take(of_worker(watched.job, 0.0, 0, host_memory=5), of_worker(watched.job, 0.0, 1, host_memory=7))
    watched.take(of_worker(watched.job, 1.0, 0, host_memory=3))
    assert watched.run.host_memory == 12


def test_peak_memory_is_that_of_one_gpu() -> None:
    watched = Watched(running(2))
    for at, memory in ((0.0, 5.0), (1.0, 9.0), (2.0, 4.0)):
        watched.take(of_worker(watched.job, at, 0, memory=memory), of_worker(watched.job, at, 1, memory=1.0))
    assert watched.run.uses[0].memory == 9
    alone = Watched(replace(running(2), spec=replace(running(2).spec, launch=Launch.ONCE)))
    alone.take(of_worker(alone.job, 0.0, 0, memory=10.0))
    assert alone.run.uses[0].memory == 5, "one process on two GPUs"


def test_a_whole_gpu_tells_of_its_job_and_a_shared_one_only_its_part_of_the_power() -> None:
    whole, half = Watched(running()), Watched(running(share=GPU // 2))
    for watched in (whole, half):
        for at in (0.0, 1.0, 2.0):
            watched.take(of_gpu(at, utilisation=0.8, memory=6.0, power=200.0))
    assert whole.run.uses[0].mean == pytest.approx(0.8)
    assert whole.run.uses[0].memory == 6
    assert whole.run.energy == pytest.approx(400.0)
    assert half.run.uses[0].mean is None
    assert half.run.uses[0].memory is None
    assert half.run.energy == pytest.approx(200.0)


def test_what_its_own_processes_do_counts_before_what_its_gpu_says() -> None:
    watched = Watched(running())
    for at in (0.0, 1.0):
        watched.take(of_worker(watched.job, at, utilisation=0.3), of_gpu(at, utilisation=0.9))
    assert watched.run.uses[0].mean == pytest.approx(0.3)


def test_sizes_are_kept_apart() -> None:
    watched = Watched(running(1))
    for at in (0.0, 1.0):
        watched.take(of_worker(watched.job, at, utilisation=0.9))
    watched.job = running(2)
    for at in (2.0, 3.0):
        watched.take(*(of_worker(watched.job, at, number, utilisation=0.5) for number in (0, 1)))
    found = {use.gpus // GPU: use.mean for use in watched.run.uses}
    assert found == {1: pytest.approx(0.9), 2: pytest.approx(0.5)}


def test_workers_that_are_measured_in_turns_are_watched_no_longer_than_they_ran() -> None:
    watched = Watched(running(2))
    for at in (0.0, 1.0, 2.0, 3.0, 4.0):
        watched.take(of_worker(watched.job, at, 0, utilisation=1.0, cpu=1.0))
        watched.take(of_worker(watched.job, at + 0.5, 1, utilisation=0.5, cpu=1.0))
    assert watched.run.uses[0].seconds == 4.0
    assert watched.run.uses[0].mean == pytest.approx(0.75)
    assert watched.run.cpu == pytest.approx(2.0)


def test_a_pause_is_no_rest() -> None:
    watched = Watched(running())
    for at in (0.0, 1.0):
        watched.take(of_worker(watched.job, at, utilisation=0.9))
    watched.job = replace(watched.job, phase=Phase.PAUSING)
    watched.take(of_worker(watched.job, 2.0, utilisation=0.0))
    watched.job = replace(watched.job, phase=Phase.RUNNING)
    watched.take(of_worker(watched.job, 3.0, utilisation=0.0))
    assert watched.run.uses[0].mean == pytest.approx(0.9)


def test_sums_go_on_from_a_run_that_is_on_record() -> None:
    first = Watched(running())
    for at in (0.0, 1.0):
        first.take(of_worker(first.job, at, utilisation=0.2, cpu=1.0), of_gpu(at, power=100.0))
    run = first.figures.so_far(first.job, 1.0, 1.0)
    second = Watched(running(), run)
    for at in (5.0, 6.0):
        second.take(of_worker(second.job, at, utilisation=0.4, cpu=3.0), of_gpu(at, power=300.0))
    assert second.run.uses[0].seconds == 2.0
    assert second.run.uses[0].mean == pytest.approx(0.3)
    assert second.run.energy == pytest.approx(400.0)
    assert second.run.cpu == pytest.approx(2.0)


def test_what_was_recognised_stays_until_something_else_is() -> None:
    watched = Watched(running())
    watched.take(of_worker(watched.job, 0.0, memory=5.0))
    watched.figures.recognise(Tag(kind=WorkloadKind.TRAINING, at=0, expires=9, period=4.0, peak_memory=8))
    watched.figures.recognise(Tag(kind=WorkloadKind.UNKNOWN, at=0, expires=9))
    assert (watched.run.kind, watched.run.period, watched.run.uses[0].memory) == (
        WorkloadKind.TRAINING,
        4.0,
        8,
    )
