"""One run's figures, against a recomputation by hand."""

from dataclasses import replace

import pytest

from grus.compare import run_metrics
from grus.compare.environments import Ending, EndingKind
from grus.compare.records import GpuSample, ResourceSample, RunRecord, WorkloadReport
from grus.compare.run_metrics import MEASURES, MeasuredRun
from tests.compare.made import a_record


def figures(record: RunRecord, **ending: float) -> dict[str, float | None]:
    ended = Ending(end=EndingKind.ENDED, **ending)  # type: ignore[arg-type]  # numbers all
    return {one.name: one.of(MeasuredRun(record=record, ending=ended)) for one in MEASURES}


def test_speeds_and_times_are_those_that_were_reported() -> None:
    found = figures(a_record(steps=10, step_seconds=0.5, batch=32), queued=7.0, startup=1.5)
    assert found["steps/s"] == pytest.approx(10 / 5.0)
    assert found["samples/s"] == pytest.approx(32 * 10 / 5.0)
    assert found["step median"] == pytest.approx(0.5)
    assert found["step p95"] == pytest.approx(0.5)
    assert (found["queue"], found["start-up"], found["setup"]) == (7.0, 1.5, 1.0)
    assert found["to step 1"] == pytest.approx(2.0 - 1.0)
    assert found["steps"] == pytest.approx(5.0)
    assert found["rest"] == pytest.approx(1.0)
    assert found["run"] == pytest.approx(8.0 - 1.0)
    split = [found[name] for name in ("to step 1", "steps", "rest")]
    assert sum(part for part in split if part is not None) == pytest.approx(found["run"])


def test_what_nobody_measured_is_none_and_not_zero() -> None:
    found = figures(replace(a_record(), told=()))
    for name in ("steps/s", "samples/s", "GPU use", "GPU energy", "host energy", "queue", "samples/kJ"):
        assert found[name] is None, name


def test_two_batches_make_no_samples_a_second() -> None:
    record = a_record()
    other = WorkloadReport(t=9.0, figures={"step": 11, "batch": 64})
    assert figures(replace(record, told=(*record.told, other)))["samples/s"] is None


def test_a_sample_counts_for_the_time_that_it_stands_for() -> None:
    samples = (ResourceSample(t=2.0, cpu=4.0), ResourceSample(t=5.0, cpu=1.0))
    found = figures(replace(a_record(), samples=samples))
    assert found["CPU"] == pytest.approx((4.0 * 1 + 1.0 * 3) / 4)


def test_energy_is_power_by_time_of_the_gpus_that_it_was_given() -> None:
    def of(t: float, watts: float) -> ResourceSample:
        mine = GpuSample(index=0, use=0.5, power=watts, memory=2e9)
        return ResourceSample(t=t, gpus=(mine, GpuSample(index=1, use=1.0, power=999.0, mine=False)))

    found = figures(replace(a_record(steps=4), samples=(of(2.0, 100.0), of(4.0, 200.0)), given=(0,)))
    assert found["GPU energy"] == pytest.approx(100.0 * 1 + 200.0 * 2)
    assert found["GPU power"] == pytest.approx(500.0 / 3)
    assert found["GPU use"] == pytest.approx(0.5)
    assert found["samples/kJ"] == pytest.approx(32 * 4 / 0.5)


def test_a_step_that_is_reported_twice_or_goes_back_is_not_counted_twice() -> None:
    steps = [(1.0, 0.0), (2.0, 1.0), (3.0, 1.0), (4.0, 0.0), (5.0, 2.0)]
    record = replace(a_record(), told=tuple(WorkloadReport(t=t, figures={"step": step}) for t, step in steps))
    assert run_metrics.step_seconds(record) == [1.0, 3.0]
    assert figures(record)["steps/s"] == pytest.approx(2 / 4)


def test_time_per_stage_adds_up_to_the_whole() -> None:
    record = a_record()
    stages = run_metrics.stage_seconds(record)
    assert list(stages) == ["setup", "run", "train"]
    assert record.finish is not None
    assert sum(stages.values()) == pytest.approx(record.finish.t)
