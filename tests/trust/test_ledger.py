"""The ledger loses no run, and what runs come to together is what they have shown and no more."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.trust.counting import Standing, standing
from tests.trust.ledger import LEDGER, LONGEST_WORDS, Ledger, Run, made
from tests.trust.parts import PARTS, Figures, Part, Promise, at_most, none

CUTS = Part("cuts", "x", "x --from {next}", "cuts", 100)
POINTS = Part("points", "x", "x", "points", 20, repeats=True)
LOST = Promise("cuts that lose", "cuts", "lost", "0", none)
SLOW = Promise("slow cuts", "cuts", "worst_s", "≤ 10", at_most(10))
DIED = Promise("points not survived", "points", "died", "0", none)
PROMISES = (LOST, SLOW, DIED)


def a_run(
    part: str = "cuts", state: str = "new", seeds: tuple[int, int] | None = None, **figures: float
) -> Run:
    return Run(part, state, "2026-11-17T10:00:00Z", figures, seeds=seeds)


def stands(*runs: Run, part: Part = CUTS, state: str = "new") -> Standing:
    return standing(part, runs, state, PROMISES)


# ---------------------------------------------------------------------------------------------- the file


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "figures" / "trust.json")


def test_a_run_is_read_as_it_was_added(ledger: Ledger) -> None:
    run = Run("cuts", "new", "2026-11-17", {"cuts": 5, "worst_s": 0.5}, "2 cores", (3, 7), "mended since")
    assert ledger.runs() == []
    ledger.add(run)
    assert ledger.runs() == [run]


def test_runs_of_a_part_come_by_date_wherever_they_stand(ledger: Ledger) -> None:
    for part, date in (("cuts", "2026-11-18"), ("kills", "2026-11-16"), ("cuts", "2026-11-17T09:00:00Z")):
        ledger.add(Run(part, "new", date))
    assert [run.date for run in ledger.runs("cuts")] == ["2026-11-17T09:00:00Z", "2026-11-18"]


def test_a_run_is_one_line_so_that_ledgers_of_clones_can_be_joined(ledger: Ledger, tmp_path: Path) -> None:
    for cuts in range(3):
        ledger.add(a_run(cuts=cuts))
    first, *lines, last = (tmp_path / "figures" / "trust.json").read_text().splitlines()
    assert (first, last) == ('{"runs": [', "]}")
    assert [json.loads(line.removesuffix(","))["figures"]["cuts"] for line in lines] == [0, 1, 2]


def test_many_that_add_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def add(cuts: int) -> None:  # a lock is of who opened the folder, be it another thread or process
        Ledger(tmp_path / "trust.json").add(a_run(cuts=cuts))

    with ThreadPoolExecutor(max_workers=8) as many:
        list(many.map(add, range(40)))
    assert sorted(run.figures["cuts"] for run in Ledger(tmp_path / "trust.json").runs()) == list(range(40))  # type: ignore[type-var]  # numbers all


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_death_while_one_is_added_leaves_the_others(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def dies(*_: object) -> None:
        raise OSError("power is gone")

    ledger.add(a_run(cuts=1))
    with monkeypatch.context() as dying:
        dying.setattr(os if step == "fsync" else Path, step, dies)
        with pytest.raises(OSError, match="power"):
            ledger.add(a_run(cuts=2))
    assert ledger.runs() == [a_run(cuts=1)]
    ledger.add(a_run(cuts=3))
    assert ledger.runs() == [a_run(cuts=1), a_run(cuts=3)]


def test_what_is_bulky_is_not_kept() -> None:
    told: Figures = {"cuts": 5, "to": 9, "seed": 7, "by_kind": {"submit": 3}, "left": ["a", "b"], "why": "x"}
    run = made(CUTS, "new", 7, told)
    assert run.figures == {"cuts": 5, "left": 2}
    assert run.seeds == (7, 9)
    assert made(POINTS, "new", 7, {"points": 1}).seeds is None


def test_what_went_wrong_is_kept_in_words() -> None:
    run = made(CUTS, "new", 7, {"cuts": 5, "broken": {"8": "S4: a job\nis lost"}, "left": ["x" * 1000]})
    assert run.note.startswith("seed 8: S4: a job is lost; xxx")
    assert len(run.note) == LONGEST_WORDS


def test_no_seed_is_given_twice_whatever_the_state(ledger: Ledger) -> None:
    assert ledger.next(CUTS) == 1
    ledger.add(a_run(seeds=(40, 60), cuts=1))
    ledger.add(a_run(state="old", seeds=(1, 9), cuts=1, lost=1))
    ledger.add(a_run("points", seeds=(100, 200)))
    assert ledger.next(CUTS) == 61


def test_the_ledger_of_the_project_is_of_known_parts_and_figures() -> None:
    parts = {part.name: part for part in PARTS}
    for run in Ledger(LEDGER).runs():
        assert parts[run.part].size in run.figures, run


# ---------------------------------------------------------------------------------------------- the sum


def test_runs_add_up_and_the_slowest_time_stays() -> None:
    now = stands(a_run(cuts=50, lost=0, worst_s=2.0), a_run(cuts=50, lost=0, worst_s=1.0))
    assert now.figures == {"cuts": 100, "lost": 0, "worst_s": 2.0}
    assert (now.whole, now.due) == (True, False)


def test_runs_add_up_over_states_and_those_on_this_one_are_told() -> None:
    now = stands(a_run(state="old", cuts=70, lost=0, worst_s=1), a_run(cuts=30, lost=0, worst_s=1))
    assert (now.reached(LOST), now.here(LOST), now.states(LOST)) == (100, 30, 2)
    assert not now.due


def test_the_count_begins_anew_after_a_run_that_broke_a_promise() -> None:
    broke = a_run(state="old", cuts=50, lost=1)
    now = stands(a_run(state="older", cuts=100, lost=0), broke, a_run(cuts=10, lost=0))
    assert (now.reached(LOST), now.figures["lost"], now.broken) == (10, 0, (broke,))
    assert now.breaks_here(LOST) is None
    assert now.due


def test_a_promise_that_broke_on_this_state_stays_broken_however_many_runs_are_lucky() -> None:
    broke = a_run(cuts=50, lost=1, worst_s=1)
    now = stands(broke, a_run(cuts=100, lost=0, worst_s=1))
    assert now.breaks_here(LOST) is broke
    assert now.breaks_here(SLOW) is None
    assert (now.reached(LOST), now.due) == (0, False)


def test_no_later_run_of_a_broken_state_counts() -> None:
    runs = a_run(state="old", cuts=5, lost=1), a_run(state="old", cuts=60, lost=0), a_run(cuts=7, lost=0)
    assert stands(*runs).reached(LOST) == 7


def test_a_promise_counts_the_runs_that_told_of_it() -> None:
    now = stands(a_run(cuts=100, lost=0), a_run(cuts=30, lost=0, worst_s=1))
    assert (now.reached(LOST), now.reached(SLOW)) == (130, 30)
    assert (now.whole, now.due) == (False, True)


def test_clones_that_went_through_the_same_seeds_count_once() -> None:
    now = stands(
        a_run(seeds=(1, 50), cuts=50, lost=0),
        a_run(seeds=(40, 80), cuts=41, lost=0),
        a_run(seeds=(51, 60), cuts=10, lost=0),
    )
    assert now.reached(LOST) == 60


def test_of_proofs_that_try_the_same_the_latest_run_counts_and_a_new_state_wants_another() -> None:
    old = a_run("points", "old", points=20, died=0)
    now = stands(old, part=POINTS)
    assert (now.whole, now.due) == (True, True)
    now = stands(old, a_run("points", points=21, died=0), part=POINTS)
    assert (now.reached(DIED), now.whole, now.due) == (21, True, False)


def test_a_proof_that_tries_the_same_is_judged_by_its_latest_run() -> None:
    broke, held = a_run("points", points=20, died=1), a_run("points", points=20, died=0)
    assert stands(broke, held, part=POINTS).breaks_here(DIED) is None
    now = stands(held, broke, part=POINTS)
    assert now.breaks_here(DIED) is broke
    assert (now.reached(DIED), now.due) == (0, True)
