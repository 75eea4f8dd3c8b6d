"""Made-up workloads and faults: seeded, and like a team's."""

import pytest

from grus.model.errors import BadInput
from grus.model.jobs import JobType
from grus.simulator.cluster_spec import parse_nodes, quotas_by_use
from grus.simulator.simulator import Simulation
from grus.simulator.workload.synthetic import HOUR, Mix, random_faults, synthesize


def test_the_same_seed_gives_the_same_jobs_and_another_others() -> None:
    assert synthesize(Mix(), 1) == synthesize(Mix(), 1)
    assert synthesize(Mix(), 1) != synthesize(Mix(), 2)


def test_the_number_of_jobs_is_about_what_was_asked_for() -> None:
    jobs = synthesize(Mix(days=5, jobs=200), 3)
    assert 850 <= len(jobs) <= 1150
    assert all(0 <= job.submit < 5 * 24 * HOUR for job in jobs)
    assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)


def test_sessions_come_by_day_and_are_small_and_trainings_are_of_all_sizes() -> None:
    jobs = synthesize(Mix(days=20, jobs=200), 3)
    sessions = [job for job in jobs if job.type is JobType.DEV]
    by_day = [job for job in sessions if 8 <= job.submit / HOUR % 24 < 19]
    assert len(by_day) > 0.8 * len(sessions)
    assert {job.gpus for job in sessions} == {0.5, 1}
    assert {job.gpus for job in jobs if job.type is JobType.TRAIN} == {1, 2, 4, 8}
    assert any(job.size is not None for job in jobs)


def test_no_job_is_larger_than_the_largest() -> None:
    jobs = synthesize(Mix(days=10, largest=4), 1)
    assert max(job.high for job in jobs) == 4


def test_a_made_up_week_runs_to_its_end_within_every_rule() -> None:
    jobs = synthesize(Mix(days=1, jobs=80), 5)
    nodes = parse_nodes("2x8xA100")
    result = Simulation(nodes, quotas_by_use(jobs, nodes, least=1), jobs).run()
    assert result.violations == ()
    assert all(ran.ended is not None for ran in result.jobs)


def test_a_mix_is_written_as_names_and_numbers() -> None:
    mix = Mix.parse("days=2, jobs=50,queues=x:y,elastic=0")
    assert (mix.days, mix.jobs, mix.queues, mix.elastic, mix.users) == (2.0, 50.0, ("x", "y"), 0.0, 20)
    assert Mix.parse("") == Mix()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dais=3", "knows days, jobs"),
        ("days=-3", "above 0"),
        ("days=", "above 0"),
        ("users=1.5", "whole number"),
        ("build=2", "from 0 to 1"),
        ("queues=x:x", "different names"),
    ],
)
def test_a_mix_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Mix.parse(text)


def test_faults_are_seeded_and_those_of_a_node_do_not_depend_on_the_others() -> None:
    few = random_faults(parse_nodes("2x1xA100"), 0.0, 1e6, between=1e5, repair=1e3, seed=1)
    more = random_faults(parse_nodes("3x1xA100"), 0.0, 1e6, between=1e5, repair=1e3, seed=1)
    assert 8 <= len(few) <= 40
    assert few == [fault for fault in more if fault.node != "node-2"]
    assert all(fault.until is not None and fault.until > fault.at for fault in few)
