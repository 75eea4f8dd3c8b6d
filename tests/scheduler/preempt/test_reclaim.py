"""Reclaim between queues, by fairness: who may take from whom, and who is taken."""

from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of, two_queues


def test_a_request_over_quota_waits_for_the_end_of_the_first_minute() -> None:
    """The minimum run time guards minima against a request that is not inside quota; then it is woken."""
    world = two_queues(a=0, b=0).run(*jobs_of("A", 4))
    world.run(*jobs_of("B", 4))
    assert world.pauses() == []
    world.advance(61)
    assert (world.held("A"), world.held("B")) == (2, 2)


def test_surplus_is_not_guarded_by_the_minimum_run_time() -> None:
    world = two_queues(a=0, b=0).run(a_job("a1", queue="A", gpus="1..4"))
    began = world.now
    world.run(*jobs_of("B", 4))
    assert (world.held("A"), world.held("B")) == (2, 2)
    assert world.now - began < 30


def test_a_request_inside_quota_takes_from_any_queue_over_quota() -> None:
    """Even from one that is below its fair share."""
    world = World("1x6", a_queue("A", quota=1), a_queue("B", quota=1, weight=9), a_queue("C", quota=4))
    world.run(*jobs_of("B", 4), *jobs_of("C", 2)).advance(61)
    world.run(*jobs_of("A", 1))
    assert world.running("A") == {"a1"}
    world.run(*jobs_of("C", 2, first=3))
    assert (world.held("A"), world.held("B"), world.held("C")) == (1, 1, 4)


def test_a_request_over_quota_takes_nothing_from_a_queue_at_its_fair_share() -> None:
    world = two_queues(a=1, b=1).run(*jobs_of("A", 2), *jobs_of("B", 2)).advance(61)
    world.run(a_job("b3", queue="B")).advance(3600)
    assert world.pauses() == []


def test_no_reclaim_that_would_turn_the_tables() -> None:
    """A's rigid 4 is above its share of 2; for B's single GPU it stays: B would be ahead of A afterwards."""
    world = two_queues(a=0, b=0).run(a_job("a1", queue="A", gpus=4)).advance(61)
    world.run(a_job("b1", queue="B")).advance(3600)
    assert world.running() == {"a1"}


def test_a_gang_within_fair_share_takes_what_it_needs_at_once_or_nothing() -> None:
    """B's gang of 2 against four singles: exactly two are paused. A gang of 3 crosses B's share: none."""
    world = two_queues(a=0, b=0).run(*jobs_of("A", 4)).advance(61)
    world.run(a_job("b1", queue="B", gpus=3)).advance(120)
    assert world.pauses() == []
    world.run(a_job("b2", queue="B", gpus=2)).advance(120)
    assert len(world.pauses()) == 2
    assert "b2" in world.running()


def test_those_above_their_fair_share_are_taken_before_those_within() -> None:
    """A request inside quota: C is over its fair share, B over quota within it; C's job goes."""
    world = World("1x6", a_queue("A", quota=1), a_queue("B", weight=4), a_queue("C", weight=1))
    world.run(*jobs_of("B", 3), *jobs_of("C", 3)).advance(61)
    world.submit(a_job("b4", queue="B", gpus=6))
    world.run(*jobs_of("A", 1))
    assert world["a1"].seats
    assert world.held("C") < 3
    assert world.held("B") == 3


def test_only_as_many_victims_as_are_needed() -> None:
    """One GPU is wanted: of a rigid 2 and a rigid 1 over quota, the 1 is enough."""
    world = two_queues(a=0, b=2)
    world.run(a_job("big", queue="A", gpus=2), a_job("small", queue="A"), a_job("b1", queue="B"))
    world.run(a_job("b2", queue="B"))
    assert world.pauses() == ["small"]


def test_each_of_two_requests_is_given_a_victim_of_its_own() -> None:
    """Both are owed: neither waits until the victim of the other has gone to find that it is taken."""
    world = World("1x4", a_queue("A", quota=2), a_queue("B", quota=1), a_queue("C", quota=1))
    world.run(*jobs_of("A", 4)).submit(*jobs_of("B", 1), *jobs_of("C", 1))
    world.step()
    assert len(world.pauses()) == 2


def test_unneeded_victims_are_returned() -> None:
    """Two are wanted: taking the small one first does not mean that it goes as well as the big one."""
    world = two_queues(a=0, b=3)
    world.run(a_job("big", queue="A", gpus=2), a_job("small", queue="A"), a_job("b1", queue="B"))
    world.run(a_job("b2", queue="B", gpus=2))
    assert world.pauses() == ["big"]


def test_free_gpus_come_before_anybody_elses() -> None:
    world = two_queues().run(*jobs_of("A", 3)).advance(61)
    world.run(a_job("b1", queue="B"))
    assert world.pauses() == []
    assert len(world.running()) == 4


def test_least_lost_work_goes_first() -> None:
    """Both are over quota and equal; the one that has just saved its work loses less."""
    world = two_queues(a=0, b=2).run(*jobs_of("A", 4)).advance(600)
    world.saved("a2").settle()
    world.run(a_job("b1", queue="B"))
    assert world.pauses() == ["a2"]


def test_lower_priority_goes_before_less_lost_work() -> None:
    world = two_queues(a=0, b=2)
    world.run(a_job("low", queue="A", priority=10), *jobs_of("A", 3)).advance(600)
    world.saved("a2").settle()
    world.run(a_job("b1", queue="B"))
    assert world.pauses() == ["low"]


def test_surplus_goes_before_anything_else() -> None:
    """An elastic job's surplus is taken though a job of lower priority runs beside it."""
    world = two_queues(a=0, b=2)
    world.run(a_job("low", queue="A", priority=10), a_job("wide", queue="A", gpus="1..3", priority=60))
    assert world.size("wide") == 3
    world.run(a_job("b1", queue="B"))
    assert world.pauses() == []
    assert world.size("wide") == 2


def test_at_most_twice_what_is_requested_is_evicted_over_quota() -> None:
    """B asks one GPU over quota; pausing a rigid 3 for it would evict too much. For two it is allowed."""
    world = two_queues("1x12", a=0, b=0)
    world.run(*jobs_of("A", 3, gpus=3), *jobs_of("B", 3)).advance(61)
    world.run(a_job("b4", queue="B")).advance(300)
    assert world.pauses() == []
    world.run(a_job("b5", queue="B", gpus=2)).advance(300)
    assert len(world.pauses()) == 1
    assert "b5" in world.running()


def test_the_cap_on_evictions_does_not_hold_inside_quota() -> None:
    world = two_queues(a=0, b=1).run(a_job("a1", queue="A", gpus=4))
    world.run(a_job("b1", queue="B"))
    assert world.running() == {"b1"}


def test_work_inside_quota_is_never_taken_by_another_queue() -> None:
    world = two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2)).advance(61)
    world.run(a_job("b3", queue="B", gpus=2, priority=99), a_job("b4", queue="B", priority=99)).advance(3600)
    assert world.running("A") == {"a1", "a2"}


def test_nobody_is_paused_for_a_gang_that_still_would_not_fit() -> None:
    """B's urgent 7 could take B's own 6, but A's dev job stays: nothing is gained, nobody is paused."""
    world = World("1x8", a_queue("A", quota=2), a_queue("B", quota=6))
    world.run(a_job("d", queue="A", gpus=2, type="dev"), *jobs_of("B", 6)).advance(61)
    world.run(a_job("urgent", queue="B", gpus=7, priority=90)).advance(3600)
    assert world.pauses() == []


def test_surplus_of_one_queue_goes_before_a_minimum_of_another_in_the_same_state() -> None:
    """Both have borrowed; the rigid one is further above its share, and alone on the roomier node."""
    queues = (a_queue("A", quota=8), a_queue("B"), a_queue("C"))
    world = World("2x4", *queues)
    world.run(a_job("rigid", queue="B", gpus=4, one_node=True), a_job("wide", queue="C", gpus="2..4"))
    world.advance(61).run(a_job("a", queue="A", gpus=2, one_node=True))
    assert (world.pauses(), world.size("wide")) == ([], 2)
    assert "a" in world.running()
