"""Outputs are what was new, inputs what was held and drawn; what nobody tells is not known."""

from dataclasses import replace

import pytest

from grus.model.errors import BadInput
from grus.model.prices import Prices
from grus.model.profiles import ProfiledRun
from grus.reports.efficiency import JobEfficiency, Target, efficiency, output, parse_target, reached
from grus.reports.gpu_hours_breakdown import hours
from grus.reports.history_types import JobPast, PoolHistory
from tests.reports.test_gpu_hours_breakdown import AGAIN, RUN
from tests.reports.told import a_life, a_past


def of(past: PoolHistory, target: Target | None = None) -> JobEfficiency:
    [one] = hours(past)[1]
    return efficiency(past, one, target)


def a_run(*steps: float, batch: float | None = None) -> JobPast:
    """Reports every 100 s, from the hundredth on."""
    more = {} if batch is None else {"batch": batch}
    told = [(100.0 + 100 * number, 1, {"step": step, **more}) for number, step in enumerate(steps)]
    return a_life("a", RUN, reports=told)


def test_steps_are_counted_from_report_to_report_within_the_window() -> None:
    life = a_run(0, 10, 30, 60)
    assert output(life, 0.0, 1000.0) == (60.0, None)
    assert output(life, 150.0, 300.0) == (5.0 + 20.0, None)


def test_samples_are_steps_times_the_batch_of_their_time() -> None:
    assert output(a_run(0, 10, 30, batch=8), 0.0, 1000.0) == (30.0, 240.0)


def test_a_job_that_counts_samples_itself_is_believed() -> None:
    told = [(200.0, 1, {"samples": 50.0}), (300.0, 1, {"samples": 90.0})]
    assert output(a_life("a", RUN, reports=told), 0.0, 1000.0) == (None, 90.0)


def test_a_job_that_goes_on_from_another_ones_checkpoint_has_not_done_its_steps() -> None:
    told = [(200.0, 1, {"step": 5100.0}), (300.0, 1, {"step": 5200.0})]
    assert output(a_life("a", RUN, reports=told), 0.0, 1000.0)[0] == pytest.approx(200.0)


def test_steps_that_were_done_again_are_no_output() -> None:
    told = [(100.0, 1, {"step": 0.0}), (200.0, 1, {"step": 100.0})]
    told += [(300.0, 2, {"step": 40.0}), (400.0, 2, {"step": 140.0})]
    life = a_life("a", [*AGAIN, (500.0, "succeeded", 0.0)], reports=told)
    assert output(life, 0.0, 1000.0)[0] == pytest.approx(140.0)


def test_a_job_that_reports_nothing_has_no_output_rather_than_none_at_all() -> None:
    found = of(a_past(a_life("a", RUN)))
    assert (found.steps, found.samples, found.per_gpu_hour, found.unit) == (None, None, None, "")


def test_outputs_are_set_against_hours_energy_and_cost() -> None:
    life = replace(a_run(0, 10, 30, 60, batch=2), run=ProfiledRun(job=a_run(0).id, at=0.0, energy=3.6e6))
    prices = Prices(currency="EUR", gpu_hour=2.0, types=(("A100", 4.0),), kwh=0.5)
    found = of(replace(a_past(life), prices=prices, types={life.id: "A100"}))
    held = 2 * 400 / 3600
    assert found.samples == 120.0
    assert found.energy == pytest.approx(1.0)
    assert found.cost == pytest.approx(4.0 * held + 0.5)
    assert found.per_gpu_hour == pytest.approx(120 / held)
    assert found.per_kwh == pytest.approx(120.0)
    assert found.per_cost == pytest.approx(120 / (4.0 * held + 0.5))
    assert of(replace(a_past(life), prices=prices)).cost == pytest.approx(2.0 * held + 0.5)


def test_without_a_price_there_are_no_costs() -> None:
    assert of(a_past(a_run(0, 10))).cost is None


def test_the_time_to_a_target_counts_from_submission_and_what_was_held_by_then() -> None:
    told = [(200.0, 1, {"loss": 0.5}), (300.0, 1, {"loss": 0.2}), (400.0, 1, {"loss": 0.4})]
    life = a_life("a", RUN, reports=told)
    found = reached(life, parse_target("loss<=0.3"))
    assert found is not None
    assert (found.at, found.since_submitted, found.since_started) == (300.0, 300.0, 200.0)
    assert found.gpu_hours == pytest.approx(2 * 200 / 3600)
    assert reached(life, parse_target("loss <= 0.1")) is None
    assert reached(life, parse_target("accuracy>=0.9")) is None


@pytest.mark.parametrize("text", ["loss", "loss<0.3", "<=3", "loss<=low", "loss<=nan", "loss>=-inf", ""])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="such as loss"):
        parse_target(text)
