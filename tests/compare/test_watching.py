"""Waiting for a run, with a clock of the test's own."""

import pytest

from grus.compare.backends.run_wait import SILENCE, PollSchedule
from grus.compare.environments import DriverFailed


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def watch(self) -> PollSchedule:
        return PollSchedule(clock=lambda: self.now, pause=self.pass_by, every=1.0)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def test_what_changes_is_told_once_and_the_end_is_returned() -> None:
    states = iter(["queued", "queued", "running", "running", "over"])
    told: list[str] = []
    found = (
        Clock()
        .watch()
        .until(
            lambda state: state == "over",
            lambda: next(states),
            word=lambda state: state,
            deadline=100.0,
            tell=told.append,
        )
    )
    assert (found, told) == ("over", ["queued", "running"])


def test_when_time_is_up_the_last_look_is_returned() -> None:
    clock = Clock()
    found = clock.watch().until(
        lambda _: False, lambda: clock.now, word=str, deadline=5.0, tell=lambda _: None
    )
    assert (found, clock.now) == (5.0, 5.0)


def test_a_silence_is_borne_and_told() -> None:
    clock = Clock()
    told: list[str] = []

    def look() -> str:
        if 2.0 <= clock.now < SILENCE:
            raise DriverFailed("it does not answer")
        return "over" if clock.now >= SILENCE else "running"

    found = clock.watch().until(lambda state: state == "over", look, word=str, deadline=1e6, tell=told.append)
    assert (found, told) == ("over", ["running", "it does not answer"])


@pytest.mark.parametrize(("deadline", "at"), [(1e6, SILENCE + 1.0), (7.0, 7.0)])
def test_a_silence_that_lasts_or_outlasts_the_time_ends_it(deadline: float, at: float) -> None:
    clock = Clock()

    def look() -> str:
        raise DriverFailed("it does not answer")

    with pytest.raises(DriverFailed, match="does not answer"):
        clock.watch().until(lambda _: False, look, word=str, deadline=deadline, tell=lambda _: None)
    assert clock.now == at
