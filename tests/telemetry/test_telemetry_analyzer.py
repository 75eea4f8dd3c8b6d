"""The profiler: samples and reports in, tags out, told when something has changed and not otherwise."""

from dataclasses import replace

import numpy as np
import pytest

from grus.model.activity_labels import TrainingStage, WorkloadKind
from grus.model.identifiers import JobId, WorkerId
from grus.model.jobs import JobType
from grus.telemetry.samples import Batch, Measure, Sample
from grus.telemetry.telemetry_analyzer import EXPIRY
from tests.telemetry.watched import JOB, Watched, counted, course, epochs, gpu, worker


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_three_rhythms_are_told_apart(watched: Watched) -> None:
    periods = {"g0": 6.0, "g1": 11.0, "g2": 23.0}
    jobs = {name: JobId(f"job-{name}") for name in periods}
    for name, job in jobs.items():
        watched.known(name, job=job)
    for _ in range(240):
        watched.now += 1.0
        for name, period in periods.items():
            values = {Measure.UTILISATION: epochs(period)(watched.now)}
            watched.profiler.take(Batch((Sample(gpu(name), watched.now, values),)))
        watched.profiler.jobs(watched.now)
    found = watched.profiler.jobs(watched.now)
    for name, period in periods.items():
        assert found[jobs[name]].kind is WorkloadKind.TRAINING
        assert found[jobs[name]].period == pytest.approx(period, rel=0.05)
        of_gpu = watched.of(gpu(name))
        assert of_gpu is not None
        assert of_gpu.period == pytest.approx(period, rel=0.05)


def test_a_boundary_lies_where_work_resumes(watched: Watched) -> None:
    watched.known("g0")
    watched.go(200, gpu(), busy=epochs(20.0))
    boundary = watched.tag.boundary
    assert boundary is not None
    assert min(boundary % 20.0, 20.0 - boundary % 20.0) <= 1.5


def test_power_shows_a_rhythm_where_utilisation_does_not(watched: Watched) -> None:
    watched.known("g0")
    watched.go(300, gpu(), busy=1.0, more={Measure.POWER: epochs(28.0, high=600.0, low=250.0)})
    assert watched.tag.period == pytest.approx(28.0, rel=0.05)
    assert watched.tag.note == "it has a rhythm in its power"


def test_steps_tell_training_within_five_seconds_of_the_first(watched: Watched) -> None:
    watched.known("g0", started_at=1000.0)
    watched.go(20, gpu(), busy=0.8)
    assert (watched.tag.kind, watched.tag.stage) == (WorkloadKind.UNKNOWN, TrainingStage.START_UP)
    watched.go(5, gpu(), busy=0.8, steps=lambda at: at - 1000.0)
    assert (watched.tag.kind, watched.tag.stage) == (WorkloadKind.TRAINING, TrainingStage.TRAINING)


def test_a_tag_changes_only_when_something_has_changed(watched: Watched) -> None:
    watched.known("g0")
    watched.go(600, gpu(), busy=epochs(12.0), steps=counted(2.0))
    assert watched.kinds() == ["unknown", "training"]
    early = [at for at, _ in watched.told if at < 1180.0]
    late = [at for at, _ in watched.told if at >= 1180.0]
    assert len(early) <= 12
    assert len(late) <= 2
    assert watched.tag is watched.profiler.jobs(watched.now)[JOB]


def test_a_tag_is_renewed_before_it_expires_and_otherwise_the_same(watched: Watched) -> None:
    watched.known("g0")
    watched.go(60, gpu(), busy=0.0)
    first = watched.tag
    watched.go(200, gpu(), busy=0.0)
    assert watched.tag is first
    watched.go(EXPIRY, gpu(), busy=0.0)
    assert watched.tag.live(watched.now + 60.0)
    assert replace(watched.tag, expires=first.expires) == first


def test_idle_says_since_when(watched: Watched) -> None:
    watched.known("g0")
    watched.go(10, gpu(), busy=0.9)
    watched.go(60, gpu(), busy=0.0)
    assert watched.tag.kind is WorkloadKind.IDLE
    assert watched.tag.at == pytest.approx(1011.0, abs=1.0)


def test_a_forgotten_job_takes_its_tags_along(watched: Watched) -> None:
    watched.known("g0")
    watched.go(120, gpu(), worker(), busy=epochs(6.0))
    assert watched.of(gpu()) is not None
    assert watched.of(worker()) is not None
    watched.profiler.forget(JOB)
    assert watched.profiler.tags(watched.now) == {}
    assert watched.profiler.jobs(watched.now) == {}
    watched.go(60, gpu(), busy=0.0)
    assert watched.profiler.tags(watched.now) == {}


def test_the_next_job_on_a_gpu_begins_anew(watched: Watched) -> None:
    watched.known("g0")
    watched.go(120, gpu(), busy=epochs(6.0), memory=9e9)
    watched.profiler.forget(JOB)
    watched.go(5, gpu(), busy=0.0, memory=0.0)
    watched.known("g0")
    watched.go(20, gpu(), busy=0.9, memory=1e9)
    assert watched.tag.kind is WorkloadKind.UNKNOWN
    assert watched.tag.period is None
    assert watched.tag.peak_memory == 1_000_000_000


def test_silence_is_not_rest(watched: Watched) -> None:
    watched.known("g0")
    watched.go(120, gpu(), busy=epochs(6.0))
    watched.go(60)
    assert watched.profiler.tags(watched.now) == {}
    assert (watched.tag.kind, watched.tag.note) == (WorkloadKind.UNKNOWN, "no telemetry of it")
    watched.go(5, gpu(), busy=epochs(6.0))
    assert watched.tag.hung_since is None
    assert watched.of(gpu()) is not None


def test_a_gpu_of_nobody_is_tagged_only_while_somebody_uses_it(watched: Watched) -> None:
    watched.go(40, gpu(), busy=0.0)
    assert watched.of(gpu()) is None
    watched.go(120, gpu(), busy=epochs(6.0))
    tag = watched.of(gpu())
    assert tag is not None
    assert tag.kind is WorkloadKind.TRAINING
    watched.go(60, gpu(), busy=0.0)
    assert watched.of(gpu()) is None


def test_of_four_gpus_of_which_a_job_uses_one_three_are_idle(watched: Watched) -> None:
    names = ["g0", "g1", "g2", "g3"]
    watched.known(*names)
    for _ in range(120):
        watched.go(1, gpu("g0"), busy=epochs(8.0))
        watched.now -= 1.0
        watched.go(1, *map(gpu, names[1:]), busy=0.0)
    assert watched.tag.kind is WorkloadKind.TRAINING
    assert watched.tag.utilisation == pytest.approx(0.66 / 4, abs=0.05)
    kinds = [tag.kind for name in names if (tag := watched.of(gpu(name))) is not None]
    assert kinds == [WorkloadKind.TRAINING, WorkloadKind.IDLE, WorkloadKind.IDLE, WorkloadKind.IDLE]


def test_a_gpu_that_two_jobs_share_is_judged_by_itself(watched: Watched) -> None:
    watched.known("g0")
    watched.known("g0", job=JobId("j2"))
    watched.go(60, gpu(), busy=0.0)
    tag = watched.of(gpu())
    assert tag is not None
    assert tag.kind is WorkloadKind.IDLE


def test_known_work_on_new_data_is_retraining(watched: Watched) -> None:
    watched.known("g0", kind=WorkloadKind.TRAINING, new_data=True)
    watched.go(10, gpu(), busy=0.8, steps=counted(1.0))
    assert watched.tag.kind is WorkloadKind.RETRAINING


def test_a_dev_job_is_dev_and_idle_but_never_hung(watched: Watched) -> None:
    watched.known("g0", type=JobType.DEV)
    watched.go(10, gpu(), busy=0.8)
    watched.go(120, gpu(), busy=epochs(6.0))
    watched.go(300, gpu(), busy=0.0)
    assert watched.kinds() == ["unknown", "dev", "training", "idle"]
    assert all(tag.hung_since is None for _, tag in watched.told)


# ------------------------------------------------------------------------------------------------- hangs


def hung_after(watched: Watched, begin: float) -> float:
    """Seconds from then until the hang was told; it must last until the end."""
    told = [(at, tag) for at, tag in watched.told if tag.hung_since is not None]
    assert told, watched.told[-1]
    assert watched.tag.hung_since is not None
    assert watched.tag.kind is WorkloadKind.TRAINING
    return told[0][0] - begin


def test_a_job_that_sleeps_after_its_steps_is_hung_within_two_minutes(watched: Watched) -> None:
    watched.known("g0")
    busy = course((0, epochs(5.0)), (100, 0.0))
    watched.go(900, gpu(), busy=busy, steps=counted(1.0, until=100))
    assert hung_after(watched, 1100.0) <= 120.0
    assert watched.tag.hung_since == pytest.approx(1100.0, abs=2.0)
    assert watched.tag.note.startswith("hangs: no step any more, and no activity")


def test_a_job_that_spins_without_a_step_is_hung_within_two_minutes(watched: Watched) -> None:
    watched.known("g0")
    watched.go(900, gpu(), busy=course((0, 0.97), (100, 1.0)), steps=counted(1.0, until=100))
    assert hung_after(watched, 1100.0) <= 120.0


def test_a_job_that_had_a_rhythm_and_spins_without_a_step_is_hung_within_two_minutes(
    watched: Watched,
) -> None:
    watched.known("g0")
    rng = np.random.default_rng(11)
    busy = course((0, epochs(5.0)), (200, lambda _: float(rng.uniform(0.4, 0.9))))
    watched.go(600, gpu(), busy=busy, steps=counted(1.0, until=200))
    assert hung_after(watched, 1200.0) <= 120.0


def test_a_job_that_stops_to_report_while_its_rhythm_goes_on_does_not_hang(watched: Watched) -> None:
    watched.known("g0")
    watched.go(600, gpu(), busy=epochs(8.0), steps=counted(1.0, until=100))
    assert all(tag.hung_since is None for _, tag in watched.told)


def test_a_job_that_never_reports_but_loses_its_rhythm_is_hung(watched: Watched) -> None:
    watched.known("g0")
    watched.go(900, gpu(), busy=course((0, epochs(8.0)), (200, 0.0)))
    assert hung_after(watched, 1200.0) <= 120.0
    assert watched.tag.hung_since == pytest.approx(1200.0, abs=8.0)


def test_a_job_that_hardly_works_but_goes_on_is_never_hung(watched: Watched) -> None:
    """Its rhythm shows in noise: a hundredth of what counts as work, all the time."""
    watched.known("g0", started_at=1000.0)
    busy = course((0, 0.9), (3, epochs(2.0, high=0.0016, low=0.0008, work=0.5)))
    watched.go(600, gpu(), busy=busy)
    assert any(tag.period is not None for _, tag in watched.told)
    watched.known("g0", started_at=1600.0)  # it was paused, and goes on
    watched.go(600, gpu(), busy=busy)
    assert all(tag.hung_since is None for _, tag in watched.told)


def test_a_new_attempt_owes_nothing_to_the_rhythm_of_the_last_one(watched: Watched) -> None:
    watched.known("g0", started_at=1000.0)
    watched.go(200, gpu(), busy=epochs(5.0))
    watched.known("g0", started_at=1200.0)
    watched.go(300, gpu(), busy=0.0)
    assert all(tag.hung_since is None for _, tag in watched.told)


@pytest.mark.parametrize("saves", [True, False])
def test_a_job_that_saves_or_tells_its_loss_gets_on_without_steps(watched: Watched, saves: bool) -> None:
    watched.known("g0")
    watched.go(200, gpu(), busy=epochs(5.0))
    for _ in range(30):
        news = {} if saves else {"loss": 1000.0 / watched.now}
        watched.profiler.hear(JOB, news, watched.now, saved_at=watched.now if saves else None)
        watched.go(10, gpu(), busy=0.0)
    assert all(tag.hung_since is None for _, tag in watched.told)
    watched.go(120, gpu(), busy=0.0)
    assert watched.tag.hung_since is not None


def test_utilisation_that_stays_high_while_power_falls_is_a_hang(watched: Watched) -> None:
    watched.known("g0")
    power = course((0, epochs(8.0, high=400.0, low=200.0)), (200, 110.0))
    busy = course((0, epochs(8.0)), (200, 1.0))
    watched.go(600, gpu(), busy=busy, more={Measure.POWER: power})
    assert hung_after(watched, 1200.0) <= 120.0


def test_work_that_becomes_steady_at_full_power_is_no_hang(watched: Watched) -> None:
    watched.known("g0")
    power = course((0, epochs(8.0, high=400.0, low=200.0)), (200, 410.0))
    watched.go(600, gpu(), busy=course((0, epochs(8.0)), (200, 1.0)), more={Measure.POWER: power})
    assert all(tag.hung_since is None for _, tag in watched.told)


def test_a_job_that_never_reported_and_never_had_a_rhythm_is_never_hung(watched: Watched) -> None:
    watched.known("g0")
    watched.go(600, gpu(), busy=course((0, 0.9), (200, 0.0)))
    assert all(tag.hung_since is None for _, tag in watched.told)
    assert watched.tag.kind is WorkloadKind.IDLE


def test_a_job_that_gets_on_again_is_not_hung_any_more(watched: Watched) -> None:
    watched.known("g0")
    busy = course((0, epochs(5.0)), (100, 0.0), (260, epochs(5.0)))
    steps = course((0, counted(1.0, until=100)), (260, lambda at: at - 1160.0))
    watched.go(250, gpu(), busy=busy, steps=steps)
    assert watched.tag.hung_since is not None
    watched.go(20, gpu(), busy=busy, steps=steps)
    assert watched.tag.hung_since is None
    assert watched.kinds() == ["training"]


# ------------------------------------------------------------------------------------- stages and ranks


def test_saving_and_evaluating_are_told_in_long_epochs_only(watched: Watched) -> None:
    watched.known("g0")

    def within(at: float) -> float:
        return (at - 1000.0) % 120.0

    def busy(at: float) -> float:
        return 0.9 if within(at) < 80 else 0.5 if within(at) < 105 else 0.01

    def writes(at: float) -> float:
        return 50e6 if within(at) >= 105 else 0.0

    def steps(at: float) -> float:
        return float(int((at - 1000.0) / 120.0) * 80 + int(min(within(at), 80)))

    watched.go(600, gpu(), worker(), busy=busy, steps=steps, more={Measure.DISK_WRITE: writes})
    stages = {tag.stage for _, tag in watched.told if tag.kind is WorkloadKind.TRAINING}
    assert stages == {TrainingStage.TRAINING, TrainingStage.EVALUATION, TrainingStage.CHECKPOINT}
    assert all(tag.hung_since is None for _, tag in watched.told)


def ranks(watched: Watched, seconds: dict[str, float], laps: int) -> None:
    watched.known("g0", "g1", "g2")
    for lap in range(laps):
        for name, each in seconds.items():
            figures = {"step": float(lap + 1), "step_seconds": each}
            watched.profiler.hear(JOB, figures, watched.now + 0.5, WorkerId(name))
        watched.go(1, *(worker(name) for name in seconds), busy=0.8)


def test_a_straggler_is_named_on_its_job_and_on_itself(watched: Watched) -> None:
    ranks(watched, {"w0": 0.5, "w1": 1.0, "w2": 0.5}, 10)
    assert watched.tag.note == (
        "it reports steps; worker w1 is a straggler: its steps took 2.0 times the others' time"
    )
    own, other = watched.of(worker("w1")), watched.of(worker("w0"))
    assert own is not None
    assert other is not None
    assert own.note.startswith("a straggler")
    assert other.note == ""


def test_steps_that_take_longer_than_before_are_told(watched: Watched) -> None:
    ranks(watched, {"w0": 0.5, "w1": 0.5}, 20)
    assert "as long as before" not in watched.tag.note
    ranks(watched, {"w0": 1.0, "w1": 1.0}, 20)
    # Steps begin anew here; the pace is the same worker's.
    assert watched.tag.note.endswith("its steps take 2.0 times as long as before")


def test_peak_memory_is_that_of_one_gpu(watched: Watched) -> None:
    watched.known("g0", "g1")
    for _ in range(20):
        watched.go(1, worker(), busy=0.8, memory=8e9)
        watched.now -= 1.0
        watched.go(1, gpu("g0"), gpu("g1"), busy=0.8, memory=4e9)
    assert watched.tag.peak_memory == 4_000_000_000


def test_a_job_known_by_its_samples_alone_is_tagged_and_forgotten_with_them(watched: Watched) -> None:
    watched.go(120, worker(), busy=epochs(6.0))
    assert watched.tag.kind is WorkloadKind.TRAINING
    watched.go(700)
    assert watched.profiler.jobs(watched.now) == {}


def test_what_is_told_is_never_changed_afterwards(watched: Watched) -> None:
    watched.known("g0")
    watched.go(10, gpu(), busy=0.8)
    before = watched.profiler.tags(watched.now)
    copy = dict(before)
    watched.profiler.forget(JOB)
    watched.go(10, gpu("g1"), busy=0.8)
    assert before == copy
