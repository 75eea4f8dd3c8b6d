"""The rivals of the benchmark are what they were: the original rule behaves as its authors' did."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.periods import near, ours, shares
from benchmarks.periods_rivals import autoperiod, correlations, original
from benchmarks.periods_traces import Floats, aimless, drifting, training


def epochs(count: int, period: int, pause: int, seed: int) -> Floats:
    chance = np.random.default_rng([51, seed])
    return np.where(np.arange(count) % period < pause, 0.0, 70.0) + chance.normal(0, 3, count)


def tagged(make: Callable[[int], Floats], times: int = 60) -> list[float]:
    return [period for seed in range(times) for period in original(make(seed), 1.0)]


def test_correlations_are_pearsons() -> None:
    values = epochs(90, 20, 4, 1)
    exact = [1.0, *(np.corrcoef(values[:-lag], values[lag:])[0, 1] for lag in range(1, 45))]
    assert correlations(values) == pytest.approx(np.array(exact))


def test_the_original_rule_tags_most_drifts() -> None:
    found = tagged(lambda seed: 50 + drifting(120, 0.9, np.random.default_rng(seed)))
    assert 0.4 * 60 < len(found) < 0.85 * 60


@pytest.mark.parametrize(("period", "pause"), [(8, 1), (20, 3)])
def test_the_original_rule_is_right_about_short_epochs(period: int, pause: int) -> None:
    found = tagged(lambda seed: epochs(120, period, pause, seed))
    assert len(found) > 50
    assert np.median(found) == period


@pytest.mark.parametrize(("period", "pause"), [(45, 4), (70, 5)])
def test_the_original_rule_takes_long_epochs_for_a_period_of_one(period: int, pause: int) -> None:
    found = tagged(lambda seed: epochs(120, period, pause, seed))
    assert np.median(found) == 1


def test_the_original_rule_says_nothing_of_what_never_changes() -> None:
    assert original(np.zeros(120), 1.0) == ()


def test_one_right_answer_among_the_librarys_is_enough() -> None:
    assert near(6.0, autoperiod(epochs(600, 60, 12, 2), 0.1))
    assert near(900.0, autoperiod(epochs(9000, 900, 100, 2), 1.0))
    assert near(10.0, (3.0, 10.4))
    assert not near(10.0, (3.0, 10.6))


def test_shares_count_right_wrong_and_false_answers() -> None:
    trainings = [training(np.random.default_rng([52, number]), 30.0) for number in range(4)]
    others = [aimless("idle", np.random.default_rng([53, number])) for number in range(4)]
    assert shares(ours, trainings, others) == {"right": 1.0, "wrong": 0.0, "false": 0.0}
    assert shares(lambda values, step: (1.0,), trainings, others) == {
        "right": 0.0,
        "wrong": 1.0,
        "false": 1.0,
    }
    assert shares(lambda values, step: (), trainings, others) == {"right": 0.0, "wrong": 0.0, "false": 0.0}


def test_a_trace_holds_four_to_forty_periods_and_says_when_the_last_began() -> None:
    for number in range(40):
        trace = training(np.random.default_rng([54, number]))
        assert trace.period is not None
        seconds = len(trace.values) * trace.step
        assert 3.7 < seconds / trace.period < 43
        assert trace.step == (0.1 if trace.period < 3.7 else 1.0) or 3.7 <= trace.period < 4.3
        assert trace.began is None or 0 <= seconds - trace.began <= 1.3 * trace.period
