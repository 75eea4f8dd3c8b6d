"""Whether forecasts keep their word, and what is done when they do not."""

import pytest

from grus.simulator.forecasting.calibration import ForecastOutcome, calibrate, outcome
from grus.simulator.forecasting.quantiles import LEVELS, Chances

EVEN = Chances(tuple(1000.0 * level for level in LEVELS))


def test_without_outcomes_forecasts_are_read_as_they_are() -> None:
    found = calibrate([])
    assert found.p50_coverage is None
    assert found.read(EVEN, 0.5) == pytest.approx(500, abs=15)
    assert found.read(EVEN, 0.9) == pytest.approx(900, abs=15)


def test_forecasts_that_are_right_stay_as_they_are() -> None:
    found = calibrate([ForecastOutcome((k + 0.5) / 400) for k in range(400)])
    assert found.p50_coverage == pytest.approx(0.5, abs=0.01)
    assert found.p90_coverage == pytest.approx(0.9, abs=0.01)
    assert found.level(0.9) == pytest.approx(0.9, abs=0.02)


def test_forecasts_that_come_too_early_are_moved_later() -> None:
    """Everything happened in the later half of what was foreseen."""
    found = calibrate([ForecastOutcome(0.5 + (k + 0.5) / 800) for k in range(400)])
    assert found.p50_coverage == pytest.approx(0.0, abs=0.01)
    assert found.level(0.5) == pytest.approx(0.73, abs=0.05)
    assert found.read(EVEN, 0.5) > 650


def test_what_is_late_counts_before_it_has_happened() -> None:
    """Half of the forecasts are settled, early; the others are beyond their P90 and have not happened."""
    settled, late = [ForecastOutcome(k / 200) for k in range(100)], [ForecastOutcome(0.95, over=False)] * 100
    assert calibrate(settled).level(0.9) < 0.7
    assert calibrate([*settled, *late]).level(0.9) > 0.9
    assert calibrate([*settled, *late]).p90_coverage == pytest.approx(0.5, abs=0.01)


def test_an_outcome_is_the_chance_that_was_given_to_it() -> None:
    assert outcome(EVEN, 250.0, now=9999.0).level == pytest.approx(0.25)
    waiting = outcome(EVEN, None, now=900.0)
    assert not waiting.over
    assert waiting.level == pytest.approx(0.9)
