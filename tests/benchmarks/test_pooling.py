"""The pooling benchmark: people wait for results, and its figures tell a pool from what is none."""

import pytest

from benchmarks.pooling import compare, cut, lab, split_queues
from benchmarks.pooling_lab import DAY, HOUR, POOL, Habits, Lab, at_work, later, owners, people
from grus.model.resources import GPU
from grus.simulator.cluster_spec import count_gpus, parse_nodes

BUSY = Habits(quiet=(0.0, 0.0), at_once=1, variants=(1, 2, 4), hours=4.0)
"""Everybody experiments from the first day on, so that a few days show something."""
DAYS = 2 / 7


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    return compare([0], DAYS, BUSY)


def test_the_lab_is_the_one_of_the_mission() -> None:
    """20 people; every GPU has an owner, and is in the pool."""
    assert len(people()) == 20
    assert sum(owners().values()) == count_gpus(parse_nodes(POOL)) == 32


def test_results_come_sooner_and_more_is_tried_in_a_pool(figures: dict[str, float]) -> None:
    assert figures["jct_ratio"] < 1
    assert figures["utilisation_ratio"] > 1
    assert figures["trainings_a_week"] > figures["static_trainings_a_week"]


def test_ratios_are_those_of_the_figures_beside_them(figures: dict[str, float]) -> None:
    expected = figures["utilisation"] / figures["static_utilisation"]
    assert figures["utilisation_ratio"] == pytest.approx(expected, rel=0.01)
    assert 0 < figures["static_utilisation"] <= figures["utilisation"] <= 1


def test_the_same_seed_gives_the_same_figures() -> None:
    assert lab(1, DAYS, BUSY, static=True) == lab(1, DAYS, BUSY, static=True)


def test_nobody_goes_beyond_their_own_gpus_in_the_split() -> None:
    """An elastic training of a workstation's owner is cut to one GPU, that of a big machine's is not."""
    assert {queue.name: queue.limit for queue in split_queues()} == {
        name: gpus * GPU for name, gpus in owners().items()
    }
    experiments = Lab(0, 1.0, BUSY)
    for person in people():
        for work in experiments._experiment(person, 1, 0.0):
            assert cut(work).high <= owners()[person.queue]
            assert cut(work).gpu_seconds == pytest.approx(work.gpu_seconds)


@pytest.mark.parametrize(
    ("at", "hours", "expected"),
    [
        (0.0, 1.0, 10 * HOUR),
        (17.5 * HOUR, 1.0, DAY + 9.5 * HOUR),
        (4 * DAY + 20 * HOUR, 1.0, 7 * DAY + 10 * HOUR),
        (12 * HOUR, 2.0, 14 * HOUR),
    ],
)
def test_people_work_by_day_and_not_at_weekends(at: float, hours: float, expected: float) -> None:
    assert later(at, hours) == pytest.approx(expected)
    assert at_work(at) >= at
