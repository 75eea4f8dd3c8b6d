"""Change points: where a level moves and stays, and nowhere else."""

import numpy as np
import pytest

from grus.patterns.changepoints import changes, level_since
from tests.patterns.traces import drift

SEEDS = range(100, 140)


def test_a_step_is_found_where_it_is() -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        at = int(rng.integers(40, 260))
        values = rng.normal(0.5, 0.05, 300)
        values[at:] += 0.3
        assert changes(values, shift=0.1) == [pytest.approx(at, abs=2)]


def test_several_levels_are_told_apart() -> None:
    values = np.concatenate([np.full(50, 0.1), np.full(80, 0.9), np.full(60, 0.5)])
    assert changes(values) == [50, 130]
    assert level_since(values) == 130


@pytest.mark.parametrize("keeps", [0.0, 0.5, 0.9])
def test_noise_and_drift_that_soon_forgets_have_hardly_any(keeps: float) -> None:
    found = [bool(changes(drift(np.random.default_rng(seed), 300, keeps)[0])) for seed in SEEDS]
    assert sum(found) <= 0.1 * len(SEEDS)


def test_a_level_that_does_not_last_is_none() -> None:
    values = np.full(100, 0.5)
    values[50:54] = 0.0
    assert changes(values, shift=0.1) == []


def test_levels_nearer_than_the_shift_are_the_same() -> None:
    values = np.concatenate([np.full(50, 0.50), np.full(50, 0.52)])
    assert changes(values, shift=0.05) == []


def test_gaps_belong_to_no_side() -> None:
    values = np.concatenate([np.full(40, 0.1), np.full(30, np.nan), np.full(40, 0.9)])
    assert changes(values) == [70]


def test_too_little_has_none() -> None:
    assert changes(np.zeros(0)) == []
    assert changes(np.array([0.0] * 5 + [1.0] * 5)) == []
