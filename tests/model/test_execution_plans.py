"""What fell short once is remembered once for each number of GPUs and way."""

from grus.model.execution_plans import Shortage, merged


def test_of_each_way_the_most_that_fell_short_is_kept() -> None:
    split = Shortage(2, 5, ("split",))
    assert merged([Shortage(1, 2), split, Shortage(1, 4), Shortage(1, 3)]) == (Shortage(1, 4), split)


def test_less_than_what_fell_short_adds_nothing() -> None:
    known = merged([Shortage(1, 4), Shortage(2, 4)])
    assert merged([*known, Shortage(1, 1), Shortage(2, 4)]) == known
