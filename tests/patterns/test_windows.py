"""Windows: even bins, bounded, with gaps."""

import math

import numpy as np

from grus.patterns.windows import Window


def test_what_came_in_one_bin_is_averaged_and_an_empty_one_is_a_gap() -> None:
    window = Window(10)
    for at, value in ((100.1, 1.0), (100.6, 3.0), (102.5, 5.0)):
        window.add(at, value)
    np.testing.assert_array_equal(window.values(), [2.0, np.nan, 5.0])


def test_it_keeps_the_last_bins_only() -> None:
    window = Window(5)
    for at in range(100):
        window.add(at, float(at))
    assert window.values().tolist() == [95, 96, 97, 98, 99]


def test_after_a_long_silence_nothing_old_is_left() -> None:
    window = Window(5)
    window.add(0.0, 1.0)
    window.add(1000.0, 2.0)
    assert window.values().tolist() == [2.0]


def test_what_is_too_old_or_no_number_is_dropped_and_what_is_late_finds_its_bin() -> None:
    window = Window(5)
    for at, value in ((10.0, 1.0), (12.0, 3.0), (11.0, 2.0), (1.0, 9.0), (12.5, math.nan)):
        window.add(at, value)
    assert window.values().tolist() == [1.0, 2.0, 3.0]


def test_an_empty_one_has_no_values() -> None:
    assert len(Window(5).values()) == 0
