"""Forecasts: right where the series repeats, wide where it does not, silent where there is too little."""

import numpy as np
import pytest
from numpy.typing import NDArray

from grus.patterns.demand_forecast import DAY, WEEK, Forecast, Nothing, forecast, span

HOUR = 3600.0


def daily(days: int, noise: float = 0.0, seed: int = 1) -> NDArray[np.float64]:
    """Hours of days that are alike."""
    hours = np.arange(days * 24)
    rng = np.random.default_rng(seed)
    found: NDArray[np.float64] = 10 + 8 * np.sin(hours * 2 * np.pi / 24) + rng.normal(0, noise, len(hours))
    return found


def told(values: NDArray[np.float64], ahead: int = 24, **more: float) -> Forecast:
    found = forecast(values, HOUR, ahead * HOUR, **more)  # type: ignore[arg-type]  # only floats are passed
    assert isinstance(found, Forecast)
    return found


def test_days_that_are_alike_are_foretold() -> None:
    series = daily(15)
    found = told(series[:-24])
    assert found.median == pytest.approx(series[-24:], abs=0.1)
    assert found.season == DAY


def test_a_week_is_used_once_it_was_seen_three_times() -> None:
    hours = np.arange(24 * 28)
    weekend = np.where(hours // 24 % 7 >= 5, 0.0, 1.0)
    found = told(weekend[: 24 * 25])  # Friday follows; then the weekend
    assert found.season == WEEK
    assert told(weekend[: 24 * 26]).median == pytest.approx(np.zeros(24), abs=0.2)
    assert told(weekend[: 24 * 20]).season == DAY


def test_it_begins_where_the_series_ends() -> None:
    found = told(daily(5), ahead=6, start=1000.0)
    assert (found.start, found.step, len(found.median)) == (1000.0 + 5 * 24 * HOUR, HOUR, 6)


def test_nine_of_ten_values_lie_within_the_interval() -> None:
    covered = []
    for seed in range(12):
        series = daily(22, noise=2.0, seed=seed)
        found = told(series[:-24])
        covered.append((series[-24:] >= found.low) & (series[-24:] <= found.high))
    assert 0.83 <= np.mean(covered) <= 0.96


def test_the_interval_of_a_drift_widens_with_the_distance() -> None:
    steps = np.random.default_rng(5).normal(0, 1, 24 * 30)
    found = told(1000 + np.cumsum(steps))
    width = found.high - found.low
    assert width[-1] > 2 * width[0]
    assert found.median[0] == pytest.approx(1000 + steps.sum(), abs=2)


def test_low_is_never_above_the_median_nor_below_zero_and_high_never_above_the_most() -> None:
    for seed in range(4):
        series = np.clip(daily(10, noise=6.0, seed=seed), 0, 18)
        found = told(series, most=18.0)
        assert np.all(found.low >= 0)
        assert np.all(found.low <= found.median)
        assert np.all(found.median <= found.high)
        assert np.all(found.high <= 18)


def test_what_never_changes_is_foretold_without_a_doubt() -> None:
    found = told(np.full(24 * 7, 3.0))
    assert found.median == pytest.approx(np.full(24, 3.0))
    assert found.high == pytest.approx(found.low, abs=1e-6)


def test_too_little_is_told_with_how_much_is_missing() -> None:
    found = forecast(daily(2), HOUR, DAY)
    assert found == Nothing("3 d of measurements are needed, there are 2 d; 1 d more to go")
    assert forecast(np.array([]), HOUR, DAY) == Nothing(
        "3 d of measurements are needed, there are 0 s; 3 d more to go"
    )


def test_gaps_are_not_measurements() -> None:
    series = daily(4)
    series[24:72] = np.nan
    assert isinstance(forecast(series, HOUR, DAY), Nothing)


def test_a_short_gap_does_not_spoil_a_forecast() -> None:
    series = daily(15)
    truth = series[-24:].copy()
    series[100:105] = np.nan
    assert told(series[:-24]).median == pytest.approx(truth, abs=1.0)


def test_a_series_that_ended_long_ago_has_no_forecast() -> None:
    series = daily(15)
    series[-30:] = np.nan
    found = forecast(series, HOUR, DAY)
    assert found == Nothing("the last measurement is 1 d 6 h old, as long ago as the forecast would reach")


def test_a_rhythm_that_is_no_whole_number_of_steps_can_be_a_season() -> None:
    seconds = np.arange(0, 3600, 5.0)
    series = np.where(seconds % 91.3 < 60, 0.9, 0.1)
    found = forecast(series[:-60], 5.0, 300.0, seasons=(91.3,))
    assert isinstance(found, Forecast)
    naive = np.abs(series[-60:] - series[-61]).mean()
    assert np.abs(found.median - series[-60:]).mean() < 0.3 * naive


@pytest.mark.parametrize("ahead", [1, 23, 24, 25, 36])
def test_the_least_that_is_enough_is_enough_for_every_length(ahead: int) -> None:
    series = daily(6, noise=1.0)[: max(3 * ahead, 36)]
    assert np.all(np.isfinite(told(series, ahead=ahead).high))


def test_lengths_of_time_are_told_in_two_units() -> None:
    assert [span(5), span(3600), span(93_784)] == ["5 s", "1 h", "1 d 2 h"]
