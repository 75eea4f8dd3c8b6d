"""Stragglers: few, apart from the rest, over several steps."""

import csv
import os
from collections import defaultdict
from pathlib import Path

import pytest

from grus.patterns.stragglers import RECENT, StragglerDetector, stragglers


def laps(*seconds: float) -> dict[int, list[float]]:
    return {rank: [one] * RECENT for rank, one in enumerate(seconds)}


def test_a_rank_that_needs_much_longer_than_all_others_is_a_straggler() -> None:
    assert stragglers(laps(1.0, 1.1, 2.0, 1.05)) == {2: pytest.approx(2.0 / 1.05)}


def test_one_slow_step_is_chance() -> None:
    found = laps(1.0, 1.0, 1.0)
    found[1][-1] = 30.0
    assert stragglers(found) == {}


def test_ranks_of_two_kinds_are_uneven_and_none_is_a_straggler() -> None:
    assert stragglers(laps(1.0, 1.0, 2.0, 2.0)) == {}


def test_nobody_is_judged_before_all_have_enough_steps() -> None:
    found = laps(1.0, 1.0, 3.0)
    found[0].pop()
    assert stragglers(found) == {}


def test_a_rank_alone_has_nobody_to_be_slower_than() -> None:
    assert stragglers(laps(9.0)) == {}


def test_of_two_ranks_the_slow_one_is_told() -> None:
    assert set(stragglers(laps(1.0, 1.5))) == {1}


def test_a_straggler_stays_one_until_it_has_caught_up() -> None:
    assert stragglers(laps(1.0, 1.2)) == {}
    assert set(stragglers(laps(1.0, 1.2), frozenset({1}))) == {1}
    assert stragglers(laps(1.0, 1.1), frozenset({1})) == {}


def test_who_has_left_is_no_straggler_and_holds_up_no_judgement() -> None:
    race: StragglerDetector[str] = StragglerDetector()
    for _ in range(RECENT):
        for rank, seconds in {"a": 1.0, "b": 1.0, "slow": 3.0}.items():
            race.lap(rank, seconds)
    assert set(race.stragglers) == {"slow"}
    race.leave("slow")
    race.lap("a", 1.0)
    assert race.stragglers == {}


@pytest.mark.skipif("GRUS_DATA" not in os.environ, reason="needs GRUS_DATA: step times of real jobs")
@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (1, {6: (1800, 1950)}),  # labelled: worker 6 is the straggler
        (2, {}),  # workers of up to 30 % different speed, none apart
        (3, {}),  # in the end four of ten are slower: uneven
    ],
)
def test_of_real_jobs_the_labelled_straggler_alone_is_told_and_only_while_it_straggles(
    job: int, expected: dict[int, tuple[int, int]]
) -> None:
    path = Path(os.environ["GRUS_DATA"]) / "pai-stragglers" / f"job_{job}_norm.csv"
    with path.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["time"]))
    race: StragglerDetector[int] = StragglerDetector()
    told: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        race.lap(int(row["worker"]), float(row["batch_time_norm"]))
        for rank in race.stragglers:
            told[rank].append(int(row["time"]))
    assert set(told) == set(expected)
    for rank, (begin, end) in expected.items():
        assert begin < min(told[rank])
        assert max(told[rank]) < end
