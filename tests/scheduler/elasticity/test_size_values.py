"""The values of sizes: starts cost nothing, and large sizes are earned."""

import pytest

from grus.scheduler.elasticity.size_values import Candidate, Rule, values, within_reach

SIZES = (1, 2, 4, 8, 12, 16)
SPEEDS = tuple(size**0.8 for size in SIZES)


def test_starting_costs_nothing_so_that_no_start_is_put_off() -> None:
    waiting = Candidate("job", SIZES, SPEEDS, length=1000.0)
    moved = Candidate("job", SIZES, SPEEDS, length=1000.0, stall=0.0, present=4)
    assert values(waiting, Rule()) == values(moved, Rule())


def test_sizes_are_earned_by_running_smaller_ones() -> None:
    assert within_reach(SIZES, most_run=0) == (1,)
    assert within_reach(SIZES, most_run=0, first=2) == (1, 2)
    assert within_reach(SIZES, most_run=4) == (1, 2, 4, 8)
    assert within_reach((8, 16), most_run=0) == (8,)


def test_sizes_without_speeds_are_refused() -> None:
    with pytest.raises(ValueError, match="each have a speed"):
        Candidate("job", (1, 2), (1.0,), length=1.0)
    with pytest.raises(ValueError, match="ascend"):
        Candidate("job", (2, 1), (1.0, 2.0), length=1.0)
