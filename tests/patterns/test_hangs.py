"""Hangs: told by evidence, against what is usual for the very job."""

import numpy as np
import pytest

from grus.patterns.hangs import Evidence, Steps, flat_for, hang, power_low

BUSY = Evidence()
T0 = 1000.0


def stepped(every: float = 1.0, count: int = 20) -> Steps:
    """A job that reported a step each so many seconds, the last at `T0`."""
    steps = Steps()
    for number in range(count):
        steps.hear(float(number + 1), T0 - (count - 1 - number) * every)
    return steps


def hung(steps: Steps, seen: Evidence, after: float) -> bool:
    return hang(steps, seen, T0 + after) is not None


def test_a_job_that_sleeps_for_ever_after_its_steps_is_told_after_half_a_minute() -> None:
    steps = stepped()
    assert not hung(steps, Evidence(quiet_for=20.0), 20.0)
    found = hang(steps, Evidence(quiet_for=31.0), T0 + 31.0)
    assert found is not None
    assert (found.since, found.sentence) == (T0, "no step any more, and no activity")


def test_a_job_that_spins_without_a_step_is_told_after_a_minute() -> None:
    steps = stepped()
    assert not hung(steps, BUSY, 45.0)
    found = hang(steps, BUSY, T0 + 61.0)
    assert found is not None
    assert found.sentence == "no step any more, though it looks busy"


def test_flat_activity_with_low_power_is_told_sooner_than_with_usual_power() -> None:
    steps = stepped()
    assert hung(steps, Evidence(flat_for=35.0, power_low=True), 40.0)
    assert hung(steps, Evidence(flat_for=35.0), 40.0)
    assert not hung(steps, Evidence(flat_for=35.0, power_low=False), 40.0)


def test_patience_grows_with_the_pauses_that_a_job_usually_makes() -> None:
    slow = stepped(every=60.0)
    assert not hung(slow, Evidence(quiet_for=200.0), 200.0)
    assert hung(slow, Evidence(quiet_for=245.0), 245.0)
    assert not hung(slow, BUSY, 400.0)
    assert hung(slow, BUSY, 485.0)


def test_one_long_evaluation_teaches_patience() -> None:
    steps = stepped()
    steps.hear(21.0, T0 + 50.0)
    assert not hung(steps, BUSY, 50.0 + 390.0)
    assert hung(steps, BUSY, 50.0 + 410.0)


def test_a_job_that_reported_only_once_or_twice_has_no_pace_to_fall_behind() -> None:
    assert not hung(stepped(count=2), Evidence(quiet_for=900.0), 900.0)


def test_the_rhythm_of_earlier_runs_gives_a_pace_to_a_job_that_reported_once() -> None:
    assert hung(stepped(count=1), Evidence(quiet_for=130.0, period=30.0), 130.0)


def test_a_job_that_never_reported_and_never_had_a_rhythm_is_not_called_hung() -> None:
    for seen in (BUSY, Evidence(quiet_for=9000.0), Evidence(flat_for=480.0, power_low=True)):
        assert not hung(Steps(), seen, 9000.0)


def test_a_rhythm_that_gives_way_to_quiet_or_flatness_for_several_periods_is_a_hang() -> None:
    assert not hung(Steps(), Evidence(quiet_for=35.0, period=10.0), 0.0)
    found = hang(Steps(), Evidence(quiet_for=41.0, period=10.0), T0)
    assert found is not None
    assert found.since == T0 - 41.0
    assert hung(Steps(), Evidence(flat_for=45.0, period=10.0), 0.0)
    assert not hung(Steps(), Evidence(flat_for=45.0, power_low=False, period=10.0), 0.0)


def test_the_rhythm_of_earlier_runs_has_not_given_way_to_anything() -> None:
    assert not hung(Steps(), Evidence(quiet_for=600.0, period=10.0, own=False), 0.0)


def test_who_reports_something_new_gets_on_though_it_reports_no_steps() -> None:
    assert not hung(Steps(), Evidence(quiet_for=600.0, period=10.0, told_for=35.0), 0.0)
    found = hang(Steps(), Evidence(quiet_for=600.0, period=10.0, told_for=41.0), T0)
    assert found is not None
    assert found.since == T0 - 41.0


def test_a_job_whose_reports_stop_while_its_rhythm_goes_on_does_not_hang() -> None:
    assert not hung(stepped(), Evidence(period=5.0, beating=True), 600.0)


def test_who_saves_does_not_hang() -> None:
    assert not hung(stepped(), Evidence(quiet_for=300.0, writing=True), 300.0)


def test_who_works_when_asked_may_pause() -> None:
    assert not hung(Steps(), Evidence(quiet_for=600.0, period=10.0, on_demand=True), 600.0)


def test_who_has_done_its_last_step_does_not_hang() -> None:
    steps = stepped()
    steps.hear(21.0, T0 + 1.0, total=21.0)
    assert not hung(steps, Evidence(quiet_for=600.0), 600.0)


def test_the_same_report_again_is_no_advance_and_a_smaller_step_is_a_new_beginning() -> None:
    steps = stepped()
    assert not steps.hear(20.0, T0 + 5.0)
    assert steps.still_for(T0 + 5.0) == 5.0
    assert steps.hear(1.0, T0 + 6.0)
    assert steps.longest_pause == pytest.approx(1.0)


def test_steps_advance_until_it_is_too_long_for_their_pace() -> None:
    steps = stepped()
    assert steps.advances(T0 + 50.0)
    assert not steps.advances(T0 + 70.0)
    assert not Steps().advances(T0)


def test_flatness_is_seen_where_there_was_movement_before() -> None:
    rng = np.random.default_rng(3)
    moving = np.where(np.arange(200) % 10 < 7, 0.9, 0.2) + rng.normal(0, 0.02, 200)
    flat = np.concatenate([moving, np.full(50, 1.0) + rng.normal(0, 0.02, 50)])
    assert flat_for(moving) == 0.0
    assert 30.0 <= flat_for(flat) <= 60.0
    assert flat_for(np.full(300, 1.0)) == 0.0


def test_low_power_is_against_what_it_took_before() -> None:
    values = np.concatenate([np.full(100, 300.0), np.full(40, 120.0)])
    assert power_low(values, 30) is True
    assert power_low(np.full(140, 300.0), 30) is False
    assert power_low(np.full(40, 300.0), 30) is None
