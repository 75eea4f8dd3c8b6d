"""What is counted from a journal is what happened, and the training of the comparison can be saved."""

from pathlib import Path

import pytest

from benchmarks.sweep_live_figures import found
from benchmarks.sweep_live_sides import job
from benchmarks.sweep_live_training import LEFT, STEP, UP, Note, Training, note, notes, task

PARAMS = {"lr": 0.3, "momentum": 0.9, "width": 16, "scale": 1.0, "decay": 1e-5}


def a_turn(gpu: str, trial: int, *, began: float, up: float, left: float, value: float) -> list[Note]:
    """A process whose only step ends with its loop."""

    def line(kind: str, at: float, value: float = 0.0) -> Note:
        return Note(kind=kind, at=at, gpu=gpu, trial=trial, began=began, value=value)

    return [line(UP, up), line(STEP, left, value), line(LEFT, left)]


def test_a_pool_counts_whole_from_the_first_process_to_the_target_and_gaps_are_told_apart() -> None:
    journal = [
        *a_turn("a", 0, began=10.0, up=11.0, left=14.0, value=3.0),
        *a_turn("a", 1, began=14.5, up=15.5, left=20.0, value=0.5),
        *a_turn("b", 2, began=10.0, up=12.0, left=30.0, value=0.1),
    ]
    taken = found(journal, 1.0, 2, asked=9.0, until=99.0)
    assert taken.reached
    assert (taken.seconds, taken.gpu_seconds) == (11.0, 20.0)
    assert taken.utilisation == pytest.approx((3.0 + 4.5 + 8.0) / 20.0)
    assert [(one.freed, one.boot, one.gap) for one in taken.handovers] == [(0.5, 1.0, 1.5)]


def test_a_search_that_misses_its_target_is_counted_until_it_was_given_up() -> None:
    journal = a_turn("a", 0, began=0.0, up=1.0, left=5.0, value=3.0)
    taken = found(journal, 1.0, 1, asked=0.0, until=10.0)
    assert not taken.reached
    assert (taken.gpu_seconds, taken.utilisation) == (10.0, 0.4)


def test_a_saved_training_goes_on_as_if_it_had_not_been_paused(tmp_path: Path) -> None:
    whole, other = Training(PARAMS, 1), Training(PARAMS, 1)
    values = [whole.step() for _ in range(4)]
    assert [other.step() for _ in range(2)] == values[:2]
    other.save(tmp_path / "saved.pickle")
    resumed = Training.load(tmp_path / "saved.pickle")
    assert [resumed.step() for _ in range(2)] == values[2:]
    assert resumed.done == 4


def test_a_line_of_the_journal_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    [line, *_] = a_turn("a", 0, began=0.0, up=1.0, left=2.0, value=3.0)
    note(journal, line)
    with journal.open("a") as file:
        file.write('{"kind": "st')
    assert notes(journal) == [line]


def test_the_sweep_that_is_submitted_is_a_search_with_the_defaults(tmp_path: Path) -> None:
    section = job(tmp_path / "one.journal", 3, 1.0, 0.1, {})["sweep"]
    assert isinstance(section, dict)
    assert section.keys() == {"metric", "space", "seed", "stopping", "budget"}
    assert section["space"].keys() == {axis.name for axis in task().axes}
