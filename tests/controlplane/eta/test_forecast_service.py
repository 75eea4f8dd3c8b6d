"""Forecasts beside the control loop: kept up to date, held against what happened, never in its way."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from grus.controlplane.eta import forecast_service
from grus.controlplane.eta.forecast_process import ForecastProcessLost
from grus.controlplane.eta.forecast_service import Expectation, Forecaster, in_order
from grus.model.identifiers import JobId
from grus.model.interfaces import PREDICTIONS, Prediction
from grus.model.jobs import Phase
from grus.simulator.forecasting.eta_prediction import Enough, Forecast
from grus.simulator.forecasting.expected_duration import NO_HISTORY
from grus.simulator.forecasting.live_forecast_service import Fact, ForecastQuery, JobForecaster
from grus.simulator.forecasting.quantiles import LEVELS
from tests.controlplane.plane import ANN, Plane, a_spec


class Seer(JobForecaster):
    """An oracle in the same process; can be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0
        self.lost = False

    def learn(self, facts: Sequence[Fact]) -> None:
        self.told += len(facts)
        super().learn(facts)

    def foresee(self, ask: ForecastQuery, enough: Enough = lambda _: False) -> dict[JobId, Forecast]:
        if self.lost:
            raise ForecastProcessLost("gone")
        return super().foresee(replace(ask, worlds=8), enough)

    def close(self) -> None:
        pass


class Watched(Plane):
    """A plane with forecasts that are made when the test says so."""

    def begin(self) -> None:
        super().begin()
        self.seer = Seer()
        self.forecaster = Forecaster(self.store, self.loop, clock=lambda: self.engine.now, oracle=self.seer)
        self.forecaster.open()
        for part in (self.services.jobs, self.services.actions, self.services.pool):
            part._forecaster = self.forecaster

    def close(self) -> None:
        self.forecaster.close()
        super().close()

    def look(self) -> "Watched":
        self.forecaster.step(self.now)
        return self

    def ran(self, name: str, seconds: float, gpus: int = 1) -> JobId:
        """A job that ran so long and succeeded."""
        job = self.submit(name, gpus=gpus)
        self.after(seconds)
        self.engine.finish(job)
        self.settle()
        assert self.phase(job) is Phase.SUCCEEDED
        return job


@pytest.fixture
def plane() -> Iterator[Watched]:
    with closing(Watched(pool="1x2")) as made:
        yield made


def test_a_running_job_has_an_end_and_a_waiting_one_a_start(plane: Watched) -> None:
    for _ in range(4):
        plane.ran("resnet", 600.0, gpus=2)
    running = plane.submit("resnet", gpus=2)
    plane.after(100.0)
    waiting = plane.submit("resnet", gpus=2)
    plane.look()
    first, second = plane.forecaster.of(running), plane.forecaster.of(waiting)
    assert first is not None
    assert first.start_p50 is None
    assert first.end_p50 is not None
    assert first.end_p50 - plane.now == pytest.approx(500.0, abs=60)
    assert second is not None
    assert second.start_p50 is not None
    assert second.start_p50 - plane.now == pytest.approx(500.0, abs=60)


def test_of_very_many_jobs_those_that_run_and_the_first_in_line_have_a_forecast(
    plane: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast_service, "MOST_ASKED", 4)
    for _ in range(4):
        plane.ran("resnet", 600.0)
    jobs = [plane.submit("resnet") for _ in range(7)]
    assert [plane.phase(job) is Phase.RUNNING for job in jobs] == [True, True, *[False] * 5]
    plane.look()
    assert [plane.forecaster.of(job) is not None for job in jobs] == [*[True] * 4, *[False] * 3]


def test_without_history_the_end_is_unknown_and_the_reason_is_told(plane: Watched) -> None:
    job = plane.submit()
    told = plane.look().forecaster.of(job)
    assert told is not None
    assert told.end_p50 is None
    assert told.unknown == NO_HISTORY


@pytest.mark.parametrize(
    "values", [(50.0, 90.0, 40.0, 60.0), (50.0, None, 40.0, 60.0), (None, None, 40.0, 60.0)]
)
def test_no_job_is_foreseen_to_end_before_it_starts(
    values: tuple[float | None, float | None, float | None, float | None],
) -> None:
    found = in_order(Expectation(1.0, *values), waits=True)
    for start, end in ((found.start_p50, found.end_p50), (found.start_p90, found.end_p90)):
        assert end is None or (start is not None and start <= end)
    running = Expectation(1.0, end_p50=40.0, end_p90=60.0)
    assert in_order(running, waits=False) == running


def test_time_that_a_job_stood_still_is_not_time_that_it_ran(plane: Watched) -> None:
    job = plane.submit("resnet")
    plane.after(100.0)
    plane.do(lambda: plane.services.actions.pause(ANN, job)).after(60.0)
    assert plane.phase(job) is Phase.PAUSED
    plane.after(5000.0)
    plane.do(lambda: plane.services.actions.resume(ANN, job)).after(50.0)
    assert plane.phase(job) is Phase.RUNNING
    [one] = plane.forecaster._present(plane.now).jobs
    assert 150.0 <= one.ran < 300.0


def test_a_job_that_ended_has_no_forecast_and_teaches_the_oracle(plane: Watched) -> None:
    job = plane.submit("resnet")
    plane.look()
    assert plane.forecaster.of(job) is not None
    plane.after(60.0)
    plane.engine.finish(job)
    plane.settle()
    before = plane.seer.told
    plane.look()
    assert plane.seer.told > before
    assert plane.forecaster.of(job) is None
    assert plane.services.jobs.foreseen(plane.job(job)) is None


def test_the_first_forecast_of_a_job_is_stored_and_held_against_what_happened(plane: Watched) -> None:
    for _ in range(4):
        plane.ran("resnet", 600.0)
    job = plane.submit("resnet")
    plane.look()
    [kept] = plane.store.find(PREDICTIONS, limit=10)
    assert kept.job == job
    assert len(kept.end) == len(LEVELS)
    plane.after(300.0)
    plane.look()
    assert plane.store.find(PREDICTIONS, limit=10) == [kept]
    plane.engine.finish(job)
    plane.settle()
    plane.look()
    assert plane.forecaster.record.ends.settled == 1
    assert plane.forecaster.record.ends.p50_coverage == 1.0, "it ended before its P50"


def test_a_new_server_knows_how_earlier_forecasts_did(plane: Watched) -> None:
    jobs = [plane.ran("resnet", 600.0) for _ in range(4)]
    early = tuple(1.0 + level for level in LEVELS)
    plane.store.put(PREDICTIONS, *(Prediction(job=job, at=0.0, end=early) for job in jobs))
    plane.restart()
    record = plane.forecaster.record.ends
    assert record.settled == 4
    assert record.p90_coverage == 0.0
    assert record.level(0.5) > 0.5, "forecasts that came too early are read later"


def test_an_oracle_that_died_is_told_everything_again(plane: Watched) -> None:
    for _ in range(3):
        plane.ran("resnet", 600.0)
    job = plane.submit("resnet")
    plane.look()
    plane.seer.lost = True
    plane.look()
    plane.seer.lost, plane.seer.told = False, 0
    plane.look()
    assert plane.seer.told == 4
    assert plane.forecaster.of(job) is not None


def test_a_plan_says_when_it_would_start_and_what_would_make_it_sooner(plane: Watched) -> None:
    for _ in range(4):
        plane.ran("resnet", 600.0, gpus=2)
    plane.submit("resnet", gpus=2)
    plan = plane.services.actions.plan(ANN, a_spec("resnet", gpus=2))
    assert plan.starts == "later"
    assert plan.foreseen is not None
    assert plan.foreseen.start_p50 is not None
    assert plan.foreseen.start_p50 - plane.now == pytest.approx(600.0, abs=60)
    assert plan.change
    assert plane.store.find(PREDICTIONS, limit=10) == [], "a plan is nothing that could come true"
    assert len(plane.store.jobs()) == 5


def test_a_plan_that_starts_now_says_when_it_would_end(plane: Watched) -> None:
    for _ in range(4):
        plane.ran("resnet", 600.0)
    plan = plane.services.actions.plan(ANN, a_spec("resnet"))
    assert plan.starts == "now"
    assert plan.foreseen is not None
    assert plan.foreseen.start_p50 == plane.now
    assert plan.foreseen.end_p50 is not None


def test_the_loop_does_not_wait_for_a_forecast_that_is_being_made(plane: Watched) -> None:
    """While the oracle thinks, jobs are submitted and started."""
    asked, answer = threading.Event(), threading.Event()
    foresee = plane.seer.foresee

    def slowly(ask: ForecastQuery) -> dict[JobId, Forecast]:
        asked.set()
        assert answer.wait(300)
        return foresee(ask)

    plane.submit("first")
    plane.seer.foresee = slowly  # type: ignore[method-assign, assignment]  # slowed down on purpose
    thread = threading.Thread(target=plane.look)
    thread.start()
    assert asked.wait(300)
    second = plane.submit("second")
    assert plane.phase(second) in (Phase.STARTING, Phase.RUNNING)
    answer.set()
    thread.join()
