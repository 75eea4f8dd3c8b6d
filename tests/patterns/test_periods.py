"""Rhythm is told where there is one, as long as it is, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.periods_traces import NEGATIVES, aimless, drifting, training
from grus.patterns.periods import Floats, Rhythm, rhythm

TUNED = 20_000  # Seeds from here on belong to the tests; the benchmark reports others.


def epochs(count: int, period: float, pause: float = 0.2, noise: float = 0.05, seed: int = 0) -> Floats:
    """Work at 0.9, and a pause for the last part of each period; the first period begins at sample 0."""
    fine = (np.arange(count * 16) + 0.5) / 16
    clean = np.where(fine / period % 1 < 1 - pause, 0.9, 0.1).reshape(count, 16).mean(axis=1)
    return np.asarray(clean + np.random.default_rng(seed).normal(0, noise, count))


def off(period: float, found: Rhythm | None) -> float:
    assert found is not None
    return abs(found.period / period - 1)


@pytest.mark.parametrize("period", [4.3, 7.0, 18.2, 60.0, 133.0, 800.0])
def test_the_period_of_epochs_with_a_pause_is_told(period: float) -> None:
    assert off(period, rhythm(epochs(int(period * 9), period), 1.0)) < 0.03


def test_the_period_is_in_seconds_whatever_the_step() -> None:
    values = epochs(400, 23.0)
    assert off(2.3, rhythm(values, 0.1)) < 0.02
    assert off(115.0, rhythm(values, 5.0)) < 0.02


@pytest.mark.parametrize("pause", [0.05, 0.1, 0.3, 0.5])
def test_neither_a_part_nor_a_multiple_of_the_period_is_told(pause: float) -> None:
    for seed in range(10):
        assert off(40.0, rhythm(epochs(1600, 40.0, pause, 0.15, seed), 1.0)) < 0.02


def test_an_epoch_that_pauses_twice_is_one_period() -> None:
    halves = epochs(1200, 30.0, seed=1)
    unequal = halves - 0.5 * (np.arange(1200) % 60 < 30)
    assert off(60.0, rhythm(unequal, 1.0)) < 0.02


def test_a_ramp_under_the_epochs_changes_nothing() -> None:
    assert off(50.0, rhythm(epochs(500, 50.0) + np.linspace(0, 20, 500), 1.0)) < 0.02


def test_a_level_that_changes_halfway_changes_nothing() -> None:
    values = epochs(900, 45.0)
    values[400:] += 3.0
    assert off(45.0, rhythm(values, 1.0)) < 0.02


def test_gaps_are_bridged_and_cycles_without_samples_left_out() -> None:
    values = epochs(1000, 50.0)
    values[np.random.default_rng(1).random(1000) < 0.2] = np.nan
    values[310:420] = np.nan
    assert off(50.0, rhythm(values, 1.0)) < 0.02


def test_a_series_that_is_mostly_gaps_has_no_rhythm() -> None:
    values = epochs(1000, 50.0)
    values[np.arange(1000) % 3 != 0] = np.nan
    assert rhythm(values, 1.0) is None


@pytest.mark.parametrize("length", [0, 1, 5, 13, 200, 5000])
@pytest.mark.parametrize("value", [0.0, 0.37, 1e9, np.nan])
def test_what_never_changes_has_no_rhythm(length: int, value: float) -> None:
    assert rhythm(np.full(length, value), 1.0) is None


def test_fewer_than_four_periods_are_no_rhythm() -> None:
    assert rhythm(epochs(330, 100.0, noise=0.01), 1.0) is None
    assert off(100.0, rhythm(epochs(410, 100.0, noise=0.01), 1.0)) < 0.03


def test_periods_of_fewer_than_four_samples_are_not_guessed() -> None:
    found = [rhythm(epochs(300, period, 0.5, seed=3), 1.0) for period in (2.0, 2.6, 3.0, 3.4)]
    assert all(each is None or each.period >= 3.8 for each in found)


@pytest.mark.parametrize("period", [12.0, 47.0, 300.0])
def test_the_boundary_is_where_work_resumes(period: float) -> None:
    found = rhythm(epochs(int(period * 8.4), period), 1.0, start=1000.5)
    assert found is not None
    phase = (found.boundary - 1000.0) / period
    assert abs(phase - round(phase)) < 0.08
    assert 1000 + 7 * period < found.boundary <= 1000 + 8.4 * period


def test_the_boundary_of_a_load_that_grows_is_where_it_falls_back() -> None:
    values = np.arange(840) % 100 / 100 + np.random.default_rng(2).normal(0, 0.03, 840)
    found = rhythm(values, 1.0, start=0.5)
    assert found is not None
    assert abs(found.boundary - 800) < 6


def test_boundaries_follow_from_the_latest() -> None:
    known = Rhythm(period=10.0, confidence=1.0, boundary=103.0)
    assert known.next_boundary(103.0) == 103.0
    assert known.next_boundary(103.5) == 113.0
    assert known.next_boundary(99.0) == 103.0


def test_a_slow_epoch_is_told_though_its_steps_are_faster_and_swing_more() -> None:
    count = 40_000
    steps = 0.4 * np.sin(np.arange(count) * 2 * np.pi / 6.3)
    found = rhythm(steps + epochs(count, 3000.0, 0.3), 0.1)
    assert off(300.0, found) < 0.02


def test_a_fast_rhythm_is_not_told_as_a_slow_one_of_its_averages() -> None:
    count = 40_000
    for period in (11.7, 13.0, 21.3):
        wave = 0.5 + 0.4 * np.sin(np.arange(count) * 2 * np.pi / period)
        assert off(period, rhythm(wave, 1.0)) < 0.02


def test_evidence_raises_confidence() -> None:
    faint, clear = rhythm(epochs(600, 40.0, noise=0.5), 1.0), rhythm(epochs(600, 40.0, noise=0.05), 1.0)
    assert faint is not None
    assert clear is not None
    assert 0.5 <= faint.confidence < clear.confidence <= 1.0


@settings(max_examples=40, deadline=None)
@given(
    scale=st.floats(1e-3, 1e10),
    level=st.floats(-5.0, 5.0),
    seed=st.integers(0, 1000),
    sort=st.sampled_from(["training", *NEGATIVES]),
)
def test_unit_and_level_do_not_matter(scale: float, level: float, seed: int, sort: str) -> None:
    chance = np.random.default_rng([TUNED, seed])
    trace = training(chance, 20.0) if sort == "training" else aimless(sort, chance)
    plain = rhythm(trace.values[:3000], trace.step)
    scaled = rhythm((trace.values[:3000] + level) * scale, trace.step)
    assert (plain is None) == (scaled is None)
    if plain is not None:
        assert off(plain.period, scaled) < 1e-3


def test_nine_of_ten_trainings_are_told_right() -> None:
    traces = [training(np.random.default_rng([TUNED + 1, number])) for number in range(150)]
    found = [(trace, rhythm(trace.values, trace.step)) for trace in traces]
    right = sum(
        each is not None and abs(each.period / (trace.period or 1) - 1) <= 0.05 for trace, each in found
    )
    told = sum(each is not None for _, each in found)
    assert right >= 0.9 * len(traces)
    assert told - right <= 0.03 * len(traces)


@pytest.mark.parametrize("sort", list(NEGATIVES))
def test_what_has_no_rhythm_is_given_none(sort: str) -> None:
    traces = [aimless(sort, np.random.default_rng([TUNED + 2, number])) for number in range(60)]
    assert sum(rhythm(trace.values, trace.step) is not None for trace in traces) <= 1


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.95, 0.995, 1 - 1e-6])
def test_drift_of_any_memory_is_given_none(memory: float) -> None:
    found = [rhythm(drifting(1500, memory, np.random.default_rng([TUNED + 3, n])), 1.0) for n in range(40)]
    assert sum(each is not None for each in found) <= 1


@pytest.mark.parametrize("count", range(40))
def test_of_the_shortest_series_something_is_told_or_nothing_but_never_an_error(count: int) -> None:
    found = rhythm(np.random.default_rng(TUNED).random(count), 1.0)
    assert found is None or 4 * 0.95 <= found.period <= count / 3
