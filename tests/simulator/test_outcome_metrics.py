"""Figures, worked out by hand on small cases."""

import json

import pytest

from grus.model.identifiers import NodeId
from grus.simulator.outcome_metrics import Active, SimulationOutcome, measure, percentile
from grus.simulator.simulator import Fault
from tests.scheduler.builders import a_queue
from tests.simulator.scenes import a_simulation, a_work


def two_in_a_row() -> SimulationOutcome:
    """One node of four GPUs: a (4 GPUs, 100 s) at 0, b (2 GPUs, 50 s) at 20, which waits for 80 s."""
    works = [a_work("a", gpus=4), a_work("b", submit=20.0, gpus=2, duration=50.0)]
    return measure(a_simulation("1x4", works).run())


def test_completion_waiting_and_makespan() -> None:
    found = two_in_a_row()
    assert (found.jct_mean, found.jct_p50, found.jct_p99) == ((100 + 130) / 2, 100.0, 130.0)
    assert (found.wait_mean, found.wait_p50, found.wait_p99) == (40.0, 0.0, 80.0)
    assert found.makespan == 150.0
    assert (found.jobs, found.unfinished, found.longest_queue) == (2, 0, 1)


def test_utilisation_is_what_was_held_of_what_there_was() -> None:
    found = two_in_a_row()
    assert found.utilisation == (400 + 100) / (4 * 150)
    assert found.useful == found.utilisation, "nothing costs anything here"


def test_fragmentation_is_the_part_of_idle_time_on_partly_used_nodes() -> None:
    assert two_in_a_row().fragmentation == 1.0, "two idle beside b for 50 s, nothing else idle"
    works = [a_work("a", gpus=1)]
    found = measure(a_simulation("2x4", works).run())
    assert found.fragmentation == pytest.approx(3 / 7), "three beside a, four on the empty node"


def test_slowdown_counts_very_short_jobs_as_ten_seconds() -> None:
    assert two_in_a_row().slowdown_mean == (1.0 + 130 / 50) / 2
    works = [a_work("a", gpus=4), a_work("b", gpus=4, submit=95.0, duration=1.0)]
    assert measure(a_simulation("1x4", works).run()).slowdown_p99 == 1.0


def test_finish_time_fairness_compares_with_an_equal_part_of_the_pool() -> None:
    found = two_in_a_row()
    # During a's 100 s there were 1 + 0.8 jobs on average: alone on 4/1.8 GPUs it would take 1.8 times that.
    rho_a = 100 / (100 * 1.8)
    # During b's 130 s: a for 80 of them, so 1 + 80/130; an equal part is more than its two GPUs.
    assert 4 / (1 + 80 / 130) > 2
    rho_b = 130 / 50
    assert found.fairness_mean == pytest.approx((rho_a + rho_b) / 2)
    assert found.fairness_max == pytest.approx(rho_b)


def test_job_seconds_between_two_moments() -> None:
    result = a_simulation("1x4", [a_work("a", gpus=4), a_work("b", submit=20.0, duration=50.0)]).run()
    active = Active(result.jobs, result.end)
    assert active.between(0.0, 20.0) == 20.0
    assert active.between(10.0, 30.0) == 10.0 + 20.0
    assert active.between(-5.0, 1000.0) == 100.0 + 130.0


def test_figures_by_queue() -> None:
    queues = a_queue("A", quota=2), a_queue("B", quota=2)
    works = [a_work("a", queue="A", gpus=4), a_work("b", queue="B", submit=50.0, gpus=2, duration=30.0)]
    found = measure(a_simulation("1x4", works, *queues).run())
    first, second = found.queues
    assert (first.queue, first.jobs, first.preemptions, first.wait_mean) == ("A", 1, 1, 30.0)
    assert (second.queue, second.jct_mean) == ("B", 30.0)
    assert first.gpu_hours == pytest.approx(400 / 3600)
    assert (found.preemptions, found.quota_violations, found.lost_gpu_hours) == (1, 0, 0.0)


def test_nothing_is_nothing() -> None:
    found = measure(a_simulation("1x4", []).run())
    assert (found.jobs, found.jct_mean, found.utilisation, found.fairness_max) == (0, 0.0, 0.0, 0.0)


def test_an_outcome_is_json() -> None:
    text = json.dumps(two_in_a_row().as_json())
    assert json.loads(text)["jct_mean"] == 115.0


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 0.5) == 1.0
    assert percentile(list(map(float, range(1, 101))), 0.99) == 99.0
    assert percentile([], 0.5) == 0.0


def test_gpus_that_hardly_speed_a_job_up_are_hardly_useful() -> None:
    """Two GPUs do what one did in the same time: half of what is held is useful; never more than held."""
    wide = a_simulation("1x2", [a_work("e", gpus=1, size=(1, 2), efficiency=0.0)]).run()
    assert measure(wide).utilisation == 1.0
    assert measure(wide).useful == pytest.approx(0.5)
    narrow = a_simulation("1x1", [a_work("e", gpus=2, size=(1, 2), efficiency=0.5)]).run()
    assert measure(narrow).utilisation == 1.0
    assert measure(narrow).useful == 1.0


def test_lost_work_is_gpu_time_that_was_held_and_not_useful() -> None:
    works = [a_work("x", gpus=2, duration=100.0)]
    result = a_simulation("1x2", works, faults=[Fault(60.0, NodeId("n1"), 70.0)]).run()
    (ran,) = result.jobs
    assert (ran.lost, ran.useful, ran.held) == (120.0, 200.0, 320.0)
