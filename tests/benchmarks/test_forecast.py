"""The benchmark of forecasts measures what it says."""

import numpy as np
import pytest

from benchmarks.forecast import HOUR, Score, demand, score
from benchmarks.gpu_days import KINDS, gpu_days
from grus.model.identifiers import JobId
from grus.patterns.demand_forecast import DAY
from grus.simulator.workload.job_work import TraceJob


def test_demand_is_the_mean_number_of_gpus_wanted_in_each_hour() -> None:
    works = [
        TraceJob(id=JobId("a"), submit=1800.0, duration=HOUR, gpus=2),
        TraceJob(id=JobId("b"), submit=0.0, duration=900.0, gpus=4),
    ]
    assert demand(works, 0.0, 3) == pytest.approx([2.0, 1.0, 0.0])


def test_seasonal_naive_is_what_was_there_a_season_before() -> None:
    values = np.tile(np.arange(24.0), 8)
    values[-24:] += 3
    found = score(values, HOUR, 24, 24, 24, (DAY,))
    assert found is not None
    assert found.naive[DAY] == pytest.approx(np.full(24, 3.0))


def test_what_is_held_back_changes_no_forecast_that_was_made_before_it() -> None:
    values = gpu_days("serving", 9, seed=3)
    other = values.copy()
    other[-24:] = 1 - other[-24:]
    one, two = (score(each, HOUR, 24, 24, 24, (DAY,)) for each in (values, other))
    assert one is not None
    assert two is not None
    # Errors of the same forecast: they differ by no more than the truths do.
    assert np.all(np.abs(one.error - two.error) <= np.abs(values - other)[-24:] + 1e-12)


def test_the_ratio_is_against_the_better_season_unless_one_is_named() -> None:
    naive = {1.0: np.array([2.0, 2.0]), 7.0: np.array([4.0, 8.0])}
    found = Score(np.array([1.0, 3.0]), naive, np.array([1.0, 0.5]))
    assert [found.ratio(), found.ratio(7.0), found.ratio(first=1)] == pytest.approx([1.0, 1 / 3, 0.5])
    assert found.coverage == 0.75


@pytest.mark.parametrize("kind", KINDS)
def test_generated_days_are_the_same_for_a_seed_and_differ_between_seeds(kind: str) -> None:
    one = gpu_days(kind, 7, seed=1)
    assert len(one) == 7 * 24
    assert np.array_equal(one, gpu_days(kind, 7, seed=1))
    assert not np.array_equal(one, gpu_days(kind, 7, seed=2))
    assert 0 <= one.min() < one.max() <= 1
