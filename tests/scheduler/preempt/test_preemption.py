"""Preemption inside a queue, by priority, and the work that is never preempted."""

import pytest

from tests.scheduler.builders import a_job, a_pool, a_queue
from tests.scheduler.world import World, jobs_of, two_queues


def test_a_higher_priority_takes_a_lower_one_of_its_own_queue() -> None:
    world = two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2))
    world.run(a_job("urgent", queue="A", priority=60))
    assert world.running("A") == {"urgent", "a1"} or world.running("A") == {"urgent", "a2"}
    assert len(world.running("B")) == 2


def test_equal_priority_never_preempts_minima() -> None:
    world = two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2)).advance(61)
    world.run(a_job("a3", queue="A"), a_job("b3", queue="B")).advance(3600)
    assert world.pauses() == []


def test_a_lower_priority_never_preempts() -> None:
    world = World("1x2").run(a_job("wide", gpus="1..2", priority=60)).advance(61)
    world.run(a_job("low", priority=10)).advance(3600)
    assert world.size("wide") == 2
    assert world.waiting() == {"low"}


def test_the_lowest_priority_goes_first() -> None:
    world = World("1x3").run(a_job("mid", priority=40), a_job("low", priority=10), a_job("high", priority=45))
    world.run(a_job("urgent", priority=90))
    assert world.pauses() == ["low"]


def test_a_borrower_is_taken_before_a_job_of_the_own_queue() -> None:
    """Order of sources: free, reclaim, own queue. A's low job stays while B has borrowed."""
    world = World("1x4", a_queue("A", quota=2), a_queue("B", quota=2))
    world.run(a_job("low", queue="A", priority=10), *jobs_of("B", 3)).advance(61)
    world.run(a_job("urgent", queue="A", priority=90))
    assert world.running("A") == {"low", "urgent"}
    assert len(world.running("B")) == 2


def test_priority_does_not_reach_into_another_queue() -> None:
    world = two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2)).advance(61)
    world.run(a_job("urgent", queue="A", gpus=4, priority=99)).advance(3600)
    assert len(world.running("B")) == 2


@pytest.mark.parametrize("priority", [50, 60])
def test_a_waiting_minimum_takes_surplus_of_equal_or_lower_priority_in_its_queue(priority: int) -> None:
    world = World("1x4").run(a_job("wide", gpus="1..4", priority=50))
    world.run(a_job("other", priority=priority))
    assert world.size("wide") == 3
    assert "other" in world.running()
    assert world["wide"].attempt == 1


@pytest.mark.parametrize("type", ["train", "dev"])
def test_an_elastic_job_shrinks_for_its_queue_on_whichever_node_its_last_workers_are(type: str) -> None:
    world = World("2x4", a_queue("A", quota=8)).run(a_job("wide", queue="A", gpus="2..8"))
    world.run(a_job("other", queue="A", gpus=2, one_node=True, type=type))
    assert (world.pauses(), world.size("wide"), world["wide"].attempt) == ([], 6, 1)
    assert world.running() == {"wide", "other"}


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_an_elastic_job_gives_back_the_workers_on_the_node_that_is_wanted(node: str) -> None:
    pool = a_pool("2x4", labels={"n1": {"host": "n1"}, "n2": {"host": "n2"}})
    world = World(pool, a_queue("A", quota=8)).run(a_job("wide", queue="A", gpus="2..8"))
    there = {"host": node}
    world.run(a_job("other", queue="A", gpus=4, one_node=True, type="dev", node_selector=there))
    assert (world.pauses(), world.size("wide"), world["wide"].attempt) == ([], 4, 1)
    assert world.nodes_of("other") == {node}


def test_an_elastic_job_is_paused_only_when_its_minimum_is_needed() -> None:
    world = World("2x4", a_queue("A", quota=8)).run(a_job("wide", queue="A", gpus="6..8"))
    world.run(a_job("other", queue="A", gpus=4, one_node=True, type="dev"))
    assert world.pauses() == ["wide"]
    assert world.running() == {"other"}


def test_a_dev_job_preempts_its_queues_own_preemptible_work_for_its_quota() -> None:
    world = two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2))
    world.run(a_job("d", queue="A", type="dev"))
    assert "d" in world.running()
    assert len(world.running("A")) == 2
    assert len(world.running("B")) == 2


def test_dev_jobs_do_not_preempt_each_other() -> None:
    world = two_queues().run(a_job("d1", queue="A", gpus=2, type="dev"))
    world.run(a_job("d2", queue="A", priority=125)).advance(3600)
    assert world.running() == {"d1"}


def test_never_preempted_is_a_matter_of_priority_not_of_type() -> None:
    """A train job of priority 100 is never preempted; a dev job of priority 75 is."""
    world = two_queues(a=0, b=4)
    world.run(a_job("soft", queue="A", type="dev", priority=75), a_job("hard", queue="B", priority=100))
    assert world.running() == {"soft", "hard"}
    world.run(a_job("b1", queue="B", gpus=3))
    assert world.running() == {"b1", "hard"}


def test_never_preempted_covers_the_minimum_only() -> None:
    """An elastic dev job keeps its minimum; what it borrowed above goes to the owner."""
    world = two_queues(a=1, b=3).run(a_job("d", queue="A", gpus="1..4", type="dev"))
    assert world.size("d") == 4
    world.run(*jobs_of("B", 3))
    assert world.size("d") == 1
    assert world["d"].attempt == 1
    assert world.held("B") == 3


def test_never_preempted_counts_the_minimum_only() -> None:
    """Two elastic dev jobs of minimum 1 are inside a quota of 2 however wide the first has grown."""
    world = two_queues(a=2, b=2).run(a_job("d1", queue="A", gpus="1..4", type="dev"))
    world.run(a_job("d2", queue="A", gpus="1..4", type="dev"))
    assert {"d1", "d2"} <= world.running()
    world.run(a_job("d3", queue="A", type="dev")).advance(3600)
    assert "d3" not in world.running()


def test_never_preempted_stays_within_quota_at_every_level() -> None:
    world = World(
        "1x8", a_queue("P", quota=2), a_queue("P.A", parent="P", quota=1), a_queue("P.B", parent="P", quota=1)
    )
    world.run(a_job("d1", queue="P.A", type="dev"), a_job("d2", queue="P.A", type="dev"))
    world.run(a_job("d3", queue="P.B", type="dev")).advance(3600)
    assert world.running() == {"d1", "d3"}


def test_a_person_may_still_pause_what_the_scheduler_may_not() -> None:
    world = World("1x2").run(a_job("d", type="dev")).pause("d").settle()
    assert world.paused() == {"d"}


def test_an_elastic_minimum_is_preemptible_like_any_job_of_its_priority() -> None:
    world = World("1x2").run(a_job("wide", gpus="1..2", priority=40))
    world.run(a_job("urgent", gpus=2, priority=60))
    assert world.running() == {"urgent"}
    assert world.paused() == {"wide"}


def test_a_young_minimum_is_guarded_against_an_urgent_request_over_quota() -> None:
    """Queue A has no quota: its urgent job is not inside any, and waits out the first minute."""
    world = World("1x1", a_queue("A"), a_queue("B", quota=1)).run(a_job("low", queue="A", priority=10))
    world.run(a_job("urgent", queue="A", priority=90))
    assert world.pauses() == []
    world.advance(61)
    assert world.running() == {"urgent"}
