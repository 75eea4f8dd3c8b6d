"""A worker's own time of a step, without what it waits for the others."""

import pytest

from grus.elastic.training_loop.step_timer import Laps


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def step(laps: Laps, clock: Clock, own: float, waits: float = 0.0, parts: int = 1) -> None:
    clock.now += own + waits
    laps.waited(waits)
    laps.done(parts)


def test_nothing_is_told_before_a_whole_step(clock: Clock) -> None:
    laps = Laps(clock)
    step(laps, clock, 5.0)
    assert laps.seconds is None


def test_waiting_for_the_others_does_not_count(clock: Clock) -> None:
    laps = Laps(clock)
    step(laps, clock, 1.0)
    for _ in range(3):
        step(laps, clock, own=0.5, waits=1.5)
    assert laps.seconds == pytest.approx(0.5)


def test_who_has_two_parts_of_a_step_is_not_slower_for_that(clock: Clock) -> None:
    laps = Laps(clock)
    step(laps, clock, 1.0)
    step(laps, clock, own=1.0, parts=2)
    assert laps.seconds == pytest.approx(0.5)


def test_a_new_team_begins_a_new_lap(clock: Clock) -> None:
    laps = Laps(clock)
    step(laps, clock, 1.0)
    step(laps, clock, 0.5)
    step(laps, clock, own=30.0, parts=0)
    step(laps, clock, 0.5)
    assert laps.seconds == pytest.approx(0.5)


def test_a_worker_that_becomes_slow_is_seen_to_be_within_a_few_steps(clock: Clock) -> None:
    laps = Laps(clock)
    for _ in range(10):
        step(laps, clock, 0.5)
    for _ in range(10):
        step(laps, clock, 2.0)
    assert laps.seconds == pytest.approx(2.0, rel=0.05)
