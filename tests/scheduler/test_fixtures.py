"""The small histories whose outcome is fixed by the specification, through the pure core."""

import pytest

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.queues.queue_usage_tree import queue_states
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of, two_queues


def test_the_owner_of_quota_takes_back_what_was_lent_and_the_borrower_resumes_later() -> None:
    """A borrowed one GPU: when B asks inside its quota a1 is paused; when a2 is gone a1 resumes."""
    world = two_queues()
    world.run(a_job("a2", queue="A", gpus=2), a_job("a1", queue="A"), a_job("b1", queue="B"))
    assert world.running() == {"a2", "a1", "b1"}
    world.run(a_job("b2", queue="B"))
    assert world.running() == {"a2", "b1", "b2"}
    assert world["a1"].phase is Phase.PAUSED
    world.stop("a2").settle()
    assert world.running() == {"a1", "b1", "b2"}
    assert world["a1"].attempt == 2


def test_deserved_and_borrowed_gpus_return_to_two_and_two() -> None:
    """Quotas 1 and 1 of four: after a minute B's four jobs get two GPUs, and shares stay 2 : 2."""
    world = two_queues(a=1, b=1)
    world.run(*jobs_of("A", 4)).advance(61)
    world.submit(*jobs_of("B", 4)).settle()
    assert (world.held("A"), world.held("B")) == (2, 2)
    assert len(world.paused()) == 2
    while world.waiting("A") and world.waiting("B"):
        for queue in ("A", "B"):
            world.advance(70)
            world.finish(min(world.running(queue))).settle()
            assert (world.held("A"), world.held("B")) == (2, 2)


@pytest.mark.parametrize("order", ["AABB", "ABAB", "BBAA", "BABA"])
def test_a_freed_gpu_goes_to_the_queue_below_its_share(order: str) -> None:
    """Whoever finishes: the freed GPU goes to the queue that then is below its share."""
    world = two_queues(a=1, b=1)
    world.run(*jobs_of("A", 6)).advance(61)
    world.submit(*jobs_of("B", 6)).settle()
    for queue in order:
        world.finish(max(world.running(queue))).settle()
        assert (world.held("A"), world.held("B")) == (2, 2)


def test_a_rigid_job_over_quota_is_paused_whole() -> None:
    """A's rigid 4 is over its quota of 2 as a whole: B's 2 inside quota pause it and run."""
    world = two_queues().run(a_job("a1", queue="A", gpus=4))
    world.run(a_job("b1", queue="B", gpus=2))
    assert world.running() == {"b1"}
    assert world["a1"].phase is Phase.PAUSED


def test_a_dev_job_inside_quota_is_never_paused() -> None:
    """Whatever B asks, A's dev job inside quota goes on."""
    world = two_queues().run(a_job("d", queue="A", gpus=2, type="dev"))
    world.run(a_job("b1", queue="B", gpus=4), a_job("b2", queue="B", gpus=3, priority=90))
    world.run(a_job("b3", queue="B", gpus=2), a_job("b4", queue="B", gpus=1, type="dev")).advance(3600)
    assert "d" in world.running()
    assert world["d"].attempt == 1


def test_a_dev_job_beyond_its_quota_waits_even_with_idle_gpus() -> None:
    world = two_queues().run(a_job("d1", queue="A", gpus=2, type="dev"), a_job("d2", queue="A", type="dev"))
    world.advance(3600)
    assert world.running() == {"d1"}
    world.finish("d1").settle()
    assert world.running() == {"d2"}


def test_starts_of_two_equal_queues_interleave_whoever_came_first() -> None:
    """A's 50 pending jobs were there first; B's 25 start as often as A's."""
    world = two_queues()
    world.submit(*jobs_of("A", 50), *jobs_of("B", 25)).settle()
    while world.waiting("A") and world.waiting("B"):
        assert (world.held("A"), world.held("B")) == (2, 2)
        assert abs(len(world.starts("A")) - len(world.starts("B"))) <= 2
        oldest = min(world.running(), key=lambda name: (world[name].started_at, name))
        world.finish(oldest).settle()
    assert world.pauses() == []


def test_a_gang_of_four_starts_none_of_its_workers_on_three_gpus() -> None:
    world = World("1x4").run(a_job("one"), a_job("gang", gpus=4))
    assert world.running() == {"one"}
    assert world["gang"].seats == ()
    world.finish("one").settle()
    assert world.size("gang") == 4


def test_an_elastic_job_starts_with_three_and_grows_to_four_without_a_restart() -> None:
    world = World("1x4").run(a_job("one"), a_job("elastic", gpus="2..4"))
    assert world.size("elastic") == 3
    world.finish("one").settle()
    assert world.size("elastic") == 4
    assert world["elastic"].attempt == 1
    assert world["elastic"].generation == 2


def test_reserved_gpus_are_never_lent() -> None:
    """A's reserved 2 stay free for A, though they idle for ever."""
    world = World("1x4", a_queue("A", quota=2, reserved=2), a_queue("B", quota=2))
    world.submit(*jobs_of("B", 4)).settle().advance(3600)
    assert world.held("B") == 2
    world.run(*jobs_of("A", 2))
    assert world.held("A") == 2
    assert world.pauses() == []


def test_a_third_queue_gets_nothing_where_all_is_reserved_by_two() -> None:
    world = World(
        "1x4", a_queue("A", quota=2, reserved=2), a_queue("B", quota=2, reserved=2), a_queue("C", weight=9)
    )
    world.submit(*jobs_of("C", 2)).settle().advance(3600)
    assert world.held("C") == 0


def test_two_gangs_that_each_need_all_run_one_after_the_other() -> None:
    """Quotas 2 and 2, both ask for a rigid 4: no swapping; the second runs after the first's end."""
    world = two_queues()
    world.submit(a_job("a1", queue="A", gpus=4), a_job("b1", queue="B", gpus=4)).settle()
    assert len(world.running()) == 1
    first = world.running().pop()
    world.advance(24 * 3600)
    assert world.running() == {first}
    assert world.pauses() == []
    world.finish(first).settle()
    assert len(world.running()) == 1
    assert world.pauses() == []


@pytest.mark.parametrize("quota", [0, 0.8])
def test_five_equal_queues_share_four_gpus_in_turn(quota: float) -> None:
    """Each has an endless supply of short jobs of one GPU: each runs in turn, nobody is paused."""
    names = "ABCDE"
    world = World("1x4", *(a_queue(name, quota=quota) for name in names))
    for name in names:
        world.submit(*jobs_of(name, 12))
    world.settle()
    for _ in range(40):
        counts = [len(world.starts(name)) for name in names]
        assert max(counts) - min(counts) <= 1, counts
        oldest = min(world.running(), key=lambda job: (world[job].started_at, job))
        world.advance(30).finish(oldest).settle()
    assert world.pauses() == []


@pytest.mark.parametrize("gpus", [2, "2..2", "2..3"])
def test_an_elastic_job_gives_its_surplus_to_an_equal_ones_minimum(gpus: int | str) -> None:
    """An elastic 2..8 holds 8; another of its queue and priority with minimum 2 arrives: it shrinks to 6."""
    world = World("1x8").run(a_job("wide", gpus="2..8"))
    assert world.size("wide") == 8
    world.run(a_job("other", gpus=gpus))
    assert world.size("other") >= 2
    assert world.size("wide") == 8 - world.size("other")
    if gpus != "2..3":
        assert world.size("wide") == 6
    assert world["wide"].attempt == 1
    assert world.pauses() == []


def test_fair_shares_of_twenty_six_gpus() -> None:
    """Quotas 6, 0, 0, weights 3, 2, 1, each wants 26: 16, 6.67 and 3.33, given as 16, 7 and 3."""
    world = World("1x26", a_queue("A", quota=6, weight=3), a_queue("B", weight=2), a_queue("C", weight=1))
    for name in "ABC":
        world.submit(*jobs_of(name, 26))
    states = sorted(queue_states(world.snapshot, world.now), key=lambda state: state.name)
    assert [round(state.exact_share / GPU, 2) for state in states] == [16.0, 6.67, 3.33]
    assert [state.fair_share / GPU for state in states] == [16, 7, 3]
    world.settle()
    assert [world.held(name) for name in "ABC"] == [16, 7, 3]


def test_given_shares_are_reached_by_reclaim_too() -> None:
    """The same 26 GPUs, all lent to C first: they are taken back down to C's 3.33 rounded up, no further."""
    world = World("1x26", a_queue("A", quota=6, weight=3), a_queue("B", weight=2), a_queue("C", weight=1))
    world.submit(*jobs_of("C", 26)).settle().advance(61)
    world.submit(*jobs_of("A", 26), *jobs_of("B", 26)).settle().advance(61)
    assert [world.held(name) for name in "ABC"] == [16, 6, 4]
    world.finish(min(world.running("C"))).settle()
    assert [world.held(name) for name in "ABC"] == [16, 7, 3]
