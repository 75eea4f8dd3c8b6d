"""The benchmark of forecasts: what it measures, on a small trace of its own."""

import random

import pytest

from benchmarks.eta import DAY, Observer, Told, judge, pinball, sampled
from grus.scheduler.decisions import Decisions
from grus.simulator.cluster_spec import parse_nodes, quotas_by_use
from grus.simulator.simulator import Simulation
from grus.simulator.workload.job_work import TraceJob
from tests.simulator.scenes import a_work


def a_trace(jobs: int = 400) -> list[TraceJob]:
    """Forty days of two teams on eight GPUs: one runs ten minutes, give or take, the other four hours."""
    rng = random.Random(7)
    works = []
    for number in range(jobs):
        team, usual = ("quick", 600.0) if number % 2 else ("slow", 14400.0)
        at = number * 40 * DAY / jobs + rng.uniform(0.0, 3600.0)
        works.append(
            a_work(
                f"t{number:04}",
                submit=at,
                duration=usual * rng.uniform(0.5, 2.0),
                gpus=4,
                queue=team,
                user=team,
            )
        )
    return sorted(works, key=lambda work: work.submit)


@pytest.fixture(scope="module")
def told() -> list[Told]:
    works, nodes = a_trace(), parse_nodes("1x8xA100")
    queues = quotas_by_use(works, nodes)
    asked, judged_from = sampled(works, 60, seed=0)
    observer = Observer(queues, asked, judged_from, worlds=4)
    simulation = Simulation(nodes, queues, works, watch=observer.watch)
    simulation.run()
    observer.watch(simulation, Decisions(()))
    return observer.told


def test_every_asked_job_is_foreseen_at_its_submission_and_then_known(told: list[Told]) -> None:
    assert sum(one.judged for one in told) == 60
    assert all(one.raw.at == one.work.submit for one in told)
    assert all(one.started is not None and one.ended is not None for one in told)


def test_forecasts_of_two_plain_teams_are_calibrated_and_beat_the_history_of_the_queue(
    told: list[Told],
) -> None:
    figures = judge(told)
    assert 0.3 <= float(str(figures["p50_coverage"])) <= 0.7
    assert float(str(figures["p90_coverage"])) >= 0.75
    assert float(str(figures["pinball_ratio"])) <= 1.1


def test_pinball_punishes_too_early_nine_times_as_much_as_too_late_at_nine_tenths() -> None:
    assert pinball(100.0, 90.0, 0.9) == pytest.approx(9.0)
    assert pinball(90.0, 100.0, 0.9) == pytest.approx(1.0)
    assert pinball(5.0, 5.0, 0.5) == 0.0


def test_the_sample_is_the_seeds() -> None:
    works = a_trace()
    assert sampled(works, 60, 0) == sampled(works, 60, 0)
    assert sampled(works, 60, 0) != sampled(works, 60, 1)
