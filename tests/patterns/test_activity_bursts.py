"""Bursts and pauses, as samples arrive."""

import pytest

from grus.patterns.activity_bursts import Activity


def watched(values: list[float], start: float = 1000.0) -> Activity:
    activity = Activity()
    for second, value in enumerate(values):
        activity.add(start + second, value)
    return activity


def test_quiet_counts_from_the_end_of_the_last_work() -> None:
    activity = watched([0.9] * 5 + [0.0] * 20)
    assert activity.quiet_since == pytest.approx(1005.0)
    assert activity.quiet_for == pytest.approx(19.0)


def test_who_works_is_not_quiet() -> None:
    assert watched([0.0] * 5 + [0.9]).quiet_since is None
    assert watched([0.9, 0.01]).quiet_for == 0.0


def test_who_never_worked_is_quiet_from_the_first_look() -> None:
    activity = watched([0.0] * 10)
    assert activity.quiet_since == 1000.0
    assert activity.at_work_for == 0.0


def test_pauses_are_those_that_ended_with_work() -> None:
    activity = watched(([0.9] * 4 + [0.0] * 10) * 3)
    assert activity.pauses == 2
    assert activity.usual_pause == pytest.approx(10.0)
    assert activity.longest_pause == pytest.approx(10.0)


def test_a_rhythm_is_one_of_its_work_while_something_happens_in_each_cycle() -> None:
    working = [0.9] * 4 + [0.0] * 4
    assert watched(working * 4).carries(8.0)
    assert not watched(working * 4 + [0.0] * 20).carries(8.0)  # it did
    assert not watched(working).carries(8.0)  # seen too short


def test_a_rhythm_in_noise_is_none_of_its_work() -> None:
    noise = [0.001, 0.002] * 30
    assert not watched(noise).carries(2.0)
    assert not watched([0.9] * 3 + noise).carries(2.0)  # it was loaded, then it waits
    assert not watched([*noise, 0.03] * 3 + [0.001]).carries(2.0)  # a late sample now and then


def test_the_time_without_samples_is_neither_work_nor_rest() -> None:
    activity = watched([0.9] * 5 + [0.0] * 5)
    activity.add(2000.0, 0.0)
    assert activity.quiet_for < 10.0
    activity.add(2001.0, 0.9)
    assert activity.longest_pause < 10.0


def test_late_and_broken_samples_change_nothing() -> None:
    activity = watched([0.9] * 5)
    activity.add(1001.0, 0.0)
    activity.add(1005.0, float("nan"))
    assert activity.last == 1004.0
    assert activity.busy_at == 1004.0
