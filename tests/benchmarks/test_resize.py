"""The resize benchmark: what logs of steps say of an event, and which figures come out of it."""

from pathlib import Path

import pytest

from benchmarks.resizing.measure import Effect, effect, normal_step, progress, redone, stall
from benchmarks.resizing.steps import FOLDER, Line, StepLog, StepLogs
from benchmarks.resizing.summary import OURS, TORCHFT, TORCHRUN, most_redone, smallest_ratio

STEP = 0.05
EVENT = 1.02


def a_run(*ends: float, process: int = 1, first: int = 1, world: int = 1, attempts: int = 1) -> list[Line]:
    """Steps of one process that ended at these times, each begun when the one before ended."""
    begins = [ends[0] - STEP, *ends]
    return [
        Line(process, begun, done, first + index, world, attempts)
        for index, (begun, done) in enumerate(zip(begins, ends, strict=False))
    ]


def steady(begin: float, count: int) -> list[float]:
    return [begin + STEP * index for index in range(1, count + 1)]


CALM = a_run(*steady(0.0, 20))
"""Twenty steps alone, the last one at 1.0."""


def test_a_step_counts_when_its_first_worker_has_done_it_for_the_first_time() -> None:
    lines = [*a_run(1.0, 1.1), *a_run(0.9, 1.2, process=2), *a_run(3.0, process=3)]
    assert [(step.step, step.at) for step in progress(lines)] == [(1, 0.9), (2, 1.1)]


def test_the_stall_is_the_longest_gap_less_a_normal_step() -> None:
    lines = [*CALM, *a_run(1.4, *steady(1.4, 10), first=21, world=2)]
    found = effect(lines, EVENT, 2)
    assert found is not None
    assert found.normal == pytest.approx(STEP)
    assert found.stall == pytest.approx(0.4 - STEP)
    assert found.settle == pytest.approx(1.4 - EVENT)


def test_gaps_before_the_event_and_after_settling_do_not_count() -> None:
    steps = progress(a_run(0.1, 0.6, 0.65, 0.7, 1.7))
    assert stall(steps, 0.61, 0.69, STEP) == pytest.approx(0.0)


def test_steps_done_again_after_a_restart_lengthen_the_stall_and_are_counted() -> None:
    """A snapshot of step 17: steps 18 to 20 are done twice, and the first new step comes at 2.2."""
    again = a_run(*steady(2.0, 12), process=2, first=18, world=2)
    found = effect([*CALM, *again], EVENT, 2)
    assert found is not None
    assert found.redone == 3
    assert found.stall == pytest.approx(2.2 - 1.0 - STEP)


def test_a_step_that_was_thrown_away_and_begun_anew_is_redone_though_it_ended_once() -> None:
    lines = [*CALM, *a_run(1.3, first=21, attempts=2), *a_run(*steady(1.3, 10), first=22)]
    assert redone(lines, EVENT, 2.0) == 1
    assert redone(lines, 1.4, 2.0) == 0


def test_workers_of_one_step_do_not_redo_each_others_work() -> None:
    both = [*a_run(*steady(1.0, 10), world=2), *a_run(*steady(1.001, 10), process=2, world=2)]
    assert redone(both, 0.0, 9.0) == 0


def test_nothing_is_settled_before_several_steps_have_the_new_size_and_speed() -> None:
    slow = a_run(1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, first=21, world=2)
    assert effect([*CALM, *slow], EVENT, 2) is None
    assert effect([*CALM, *a_run(*steady(1.0, 10), first=21, world=1)], EVENT, 2) is None
    assert effect([*CALM, *a_run(*steady(1.0, 3), first=21, world=2)], EVENT, 2) is None


def test_an_event_without_calm_before_it_is_refused() -> None:
    with pytest.raises(ValueError, match="no two steps"):
        normal_step(progress(CALM), 100.0)


def test_what_a_worker_writes_is_read_back_and_a_line_in_the_making_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    log, logs = StepLog(), StepLogs(tmp_path)
    log.begin()
    log.begin()
    log.done(7, 2)
    (written,) = tmp_path.glob("*.steps")
    with written.open("ab") as file:
        file.write(b"1.5 1.6 8")
    (line,) = logs.read()
    assert (line.step, line.world, line.attempts, line.process) == (7, 2, 2, int(written.stem))
    with written.open("ab") as file:
        file.write(b" 2 1\n")
    assert [line.step for line in logs.read()] == [7, 8]


def test_the_ratio_is_that_of_the_event_where_the_other_does_best() -> None:
    stalls = {OURS: {"grow": 0.1, "kill": 0.2}, TORCHRUN: {"grow": 5.0, "kill": 4.0}}
    assert smallest_ratio(stalls, TORCHRUN) == pytest.approx(20.0)
    assert smallest_ratio(stalls, TORCHFT) is None


def test_the_worst_event_says_how_many_steps_were_redone() -> None:
    effects = {"grow": [Effect(0, 0, 0, STEP)], "kill": [Effect(0, 0, 1, STEP), Effect(0, 0, 0, STEP)]}
    assert most_redone(effects) == 1
