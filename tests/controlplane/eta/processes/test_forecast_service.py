"""The process that computes forecasts."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from grus.controlplane.eta import forecast_process
from grus.controlplane.eta.forecast_process import ForecastProcess, ForecastProcessLost
from grus.simulator.forecasting.live_forecast_service import ForecastQuery, JobForecaster
from tests.controlplane.eta.test_forecast_service import Watched


@pytest.fixture
def plane() -> Iterator[Watched]:
    with closing(Watched(pool="1x2")) as made:
        yield made


def test_a_process_answers_as_the_oracle_in_this_one_does(
    plane: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same facts and question, over the pipe, in pieces."""
    monkeypatch.setattr(forecast_process, "TOLD", 2)
    for _ in range(4):
        plane.ran("resnet", 600.0)
    job = plane.submit("resnet")
    for number in range(3):
        plane.submit(f"other-{number}")
    plane.look()
    facts = [plane.forecaster._fact(one) for one in plane.store.jobs()]
    ask = ForecastQuery(plane.forecaster._present(plane.now), worlds=8)
    process = ForecastProcess()
    try:
        process.learn(facts)
        found = process.foresee(ask)
    finally:
        process.close()
    assert found == JobForecaster.foresee(plane.seer, ask)
    assert found[job].end is not None


def test_a_process_that_was_killed_is_lost_and_the_next_one_begins_anew(plane: Watched) -> None:
    ask = ForecastQuery(plane.forecaster._present(plane.now), worlds=8)
    process = ForecastProcess()
    try:
        assert process.foresee(ask) == {}
        child = process._process
        assert child is not None
        child.kill()
        child.wait()
        with pytest.raises(ForecastProcessLost):
            process.foresee(ask)
        assert process.foresee(ask) == {}
    finally:
        process.close()
