"""Workloads as published with Pollux: what a line means follows from its application's measurements."""

from pathlib import Path

import pytest

from benchmarks.pollux_traces import data_folder, read_application
from grus.model.errors import BadInput, Mistake
from grus.model.resources import Range
from grus.simulator.workload.pollux_applications import EPOCHS
from grus.simulator.workload.pollux_jobs import Measured, PolluxCurves, seconds
from grus.simulator.workload.traces import read_trace

HEADING = "name,time,application,num_replicas,batch_size\n"


@pytest.fixture(scope="module")
def folder() -> Path:
    found = data_folder()
    if found is None:
        pytest.skip("needs the folder of public data: GRUS_DATA")
    return found


@pytest.fixture(scope="module")
def curves(folder: Path) -> PolluxCurves:
    def find(name: str) -> object:
        return read_application(folder / "traces" / name) if name in EPOCHS else None

    return PolluxCurves(find)  # type: ignore[arg-type]  # an application or None


def mistakes_of(text: str, curves: PolluxCurves) -> list[Mistake]:
    with pytest.raises(BadInput) as caught:
        read_trace(text.splitlines(keepends=True), curves=lambda: curves)
    return caught.value.mistakes


@pytest.mark.parametrize("number", range(1, 9))
def test_every_published_workload_is_read_whole(number: int, folder: Path, curves: PolluxCurves) -> None:
    with (folder / "workloads" / f"workload-{number}.csv").open(newline="") as file:
        works = read_trace(file, curves=lambda: curves)
    assert len(works) == 160
    assert [work.submit for work in works] == sorted(work.submit for work in works)
    for work in works:
        assert 10.0 < work.duration < 10 * 86400.0
        assert work.low <= work.gpus <= work.high
        assert work.rate(work.gpus) == 1.0


def test_the_duration_is_that_of_the_asked_batch_on_the_asked_gpus(curves: PolluxCurves) -> None:
    (work,) = read_trace([HEADING, "cifar10-0,107,cifar10,6,2048\n"], curves=lambda: curves)
    app = read_application(data_folder() / "traces" / "cifar10")  # type: ignore[operator]  # there, or the test is skipped
    assert work.duration == seconds(app, 6, 2048)
    assert (work.submit, work.gpus, work.user, work.line) == (107.0, 6, "cifar10", 2)
    assert work.duration / work.rate(2) == pytest.approx(seconds(app, 2, 2048))


def test_a_job_does_not_want_more_gpus_than_make_it_faster(curves: PolluxCurves) -> None:
    (work,) = read_trace([HEADING, "n,0,ncf,1,32768\n"], curves=lambda: curves)
    assert work.size is not None
    speeds = [work.rate(gpus) for gpus in range(1, work.size.high + 1)]
    assert max(speeds) == speeds[-1]


@pytest.mark.parametrize(
    ("cells", "field", "words"),
    [
        ("x,0,gpt,1,12", "application", "has no measurements"),
        ("x,0,,1,12", "application", "has no measurements"),
        ("x,-,bert,1,12", "time", "must be a time"),
        ("x,0,bert,0,12", "num_replicas", "whole number of GPUs"),
        ("x,0,bert,1,0", "batch_size", "whole number from 1"),
        ("x,0,bert,1,1e9", "num_replicas", "never measured"),
        ("x,0,bert,64,12", "num_replicas", "must be at most"),
        ("x,0,bert,1", "line", "must have 5 cells"),
    ],
)
def test_each_mistake_is_named_with_its_line(
    cells: str, field: str, words: str, curves: PolluxCurves
) -> None:
    found = mistakes_of(f"{HEADING}a,0,bert,1,12\n{cells}\n", curves)
    assert (found[-1].field, found[-1].line) == (field, 3)
    assert words in found[-1].rule


def test_speeds_between_whole_numbers_are_linear() -> None:
    speed = Measured((1.0, 1.8, 2.4))
    assert [speed(gpus) for gpus in (0.5, 1, 1.5, 2, 3)] == pytest.approx([0.5, 1.0, 1.4, 1.8, 2.4])
    assert Range(1, 3).high == len(speed.speeds)
