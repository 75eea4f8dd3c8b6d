"""Elastic jobs: fair shares are the budget, minima come before growth, surplus is the first thing taken."""

from tests.scheduler.builders import a_job
from tests.scheduler.world import World, jobs_of, two_queues


def test_pending_minima_of_equal_priority_precede_growth() -> None:
    """One GPU is freed: the waiting job gets it, not the elastic one."""
    world = World("1x4").run(a_job("one"), a_job("wide", gpus="3..4"), a_job("next"))
    assert world.size("wide") == 3
    world.finish("one").settle()
    assert "next" in world.running()
    assert world.size("wide") == 3


def test_growth_inside_quota_reclaims_like_a_waiting_job() -> None:
    world = two_queues(a=3, b=1).run(*jobs_of("B", 4))
    world.run(a_job("wide", queue="A", gpus="1..3"))
    assert world.size("wide") == 3
    assert world.held("B") == 1


def test_growth_above_quota_takes_no_minima() -> None:
    world = two_queues(a=1, b=1).run(*jobs_of("B", 3)).advance(61)
    world.run(a_job("wide", queue="A", gpus="1..4")).advance(3600)
    assert world.size("wide") == 1
    assert world.pauses() == []


def test_growth_above_quota_takes_surplus_above_fair_share() -> None:
    world = two_queues(a=1, b=1).run(a_job("b1", queue="B", gpus="1..4"))
    assert world.size("b1") == 4
    world.run(a_job("a1", queue="A", gpus="1..4")).advance(120)
    assert (world.size("a1"), world.size("b1")) == (2, 2)
    assert world.pauses() == []


def test_from_a_queue_inside_its_quota_only_its_own_jobs_take_surplus() -> None:
    world = two_queues().run(a_job("wide", queue="A", gpus="1..2"), *jobs_of("B", 2)).advance(61)
    world.run(a_job("b3", queue="B")).advance(3600)
    assert world.size("wide") == 2
    world.run(a_job("a2", queue="A"))
    assert world.size("wide") == 1
    assert "a2" in world.running()


def test_only_allowed_sizes_are_used() -> None:
    world = World("1x8").run(a_job("one"), a_job("wide", gpus="2..8", sizes=[2, 4, 8]))
    assert world.size("wide") == 4
    world.finish("one").settle()
    assert world.size("wide") == 8
    world.run(a_job("two"))
    assert world.size("wide") == 4


def test_freed_gpus_flow_back_to_jobs_below_their_maximum() -> None:
    world = World("1x8").run(a_job("wide", gpus="2..8"), a_job("other", gpus=4))
    assert world.size("wide") == 4
    world.finish("other").settle()
    assert world.size("wide") == 8
    assert world["wide"].attempt == 1


def test_spare_gpus_are_spread_where_they_buy_most() -> None:
    """Equal curves: two equal jobs end with equal sizes when they start together."""
    world = World("1x8")
    world.submit(a_job("x", gpus="1..8"), a_job("y", gpus="1..8")).settle()
    assert (world.size("x"), world.size("y")) == (4, 4)


def test_gpus_that_nobody_claims_go_to_whoever_can_use_them() -> None:
    """B idles: A's elastic job takes everything, above its quota and whatever its weight."""
    world = two_queues().run(a_job("wide", queue="A", gpus="1..4"))
    assert world.size("wide") == 4


def test_pinning_a_size_holds_it_there() -> None:
    world = World("1x8").run(a_job("wide", gpus="2..8")).scale("wide", 4, 4).settle()
    assert world.size("wide") == 4
    world.scale("wide", 2, 6).settle()
    assert world.size("wide") == 6
    assert world["wide"].attempt == 1


def test_a_minimum_beyond_fair_share_takes_surplus_above_quota_after_ten_minutes() -> None:
    """B's rigid 3 crosses its share of 2: it waits ten minutes, then A's surplus above quota is taken."""
    world = two_queues(a=0, b=0).run(a_job("wide", queue="A", gpus="1..4")).advance(61)
    world.run(a_job("b1", queue="B", gpus=3)).advance(500)
    assert "b1" not in world.running()
    world.advance(110)
    assert world.running() == {"wide", "b1"}
    assert world.size("wide") == 1


def test_a_minimum_beyond_fair_share_takes_no_surplus_inside_quota() -> None:
    world = two_queues(a=4, b=0).run(a_job("wide", queue="A", gpus="1..4")).advance(61)
    world.run(a_job("b1", queue="B", gpus=3)).advance(3600)
    assert world.running() == {"wide"}
    assert world.size("wide") == 4


def test_a_resize_keeps_the_staying_workers_where_they_are() -> None:
    world = World("2x4").run(a_job("wide", gpus="2..8"))
    before = {(seat.index, seat.devices) for seat in world["wide"].staying}
    world.run(a_job("other", gpus=2))
    after = {(seat.index, seat.devices) for seat in world["wide"].staying}
    assert after < before
    world.finish("other").settle()
    again = {(seat.index, seat.devices) for seat in world["wide"].staying}
    assert after < again


def test_elastic_roles_grow_and_the_fixed_role_stays() -> None:
    from tests.scheduler.builders import a_role

    roles = [a_role("launcher", 1, 0), a_role("worker", "2..4", 1)]
    world = World("1x4").run(a_job("one"), a_job("gang", roles=roles))
    assert world.size("gang") == 3
    assert sum(seat.role == "launcher" for seat in world["gang"].staying) == 1
    world.finish("one").settle()
    assert world.size("gang") == 4
    assert sum(seat.role == "launcher" for seat in world["gang"].staying) == 1


def test_a_shrunk_job_of_a_queue_over_its_share_does_not_grow_back() -> None:
    """Without events sizes stay as they are: no GPU goes back and forth."""
    world = two_queues(a=0, b=0)
    world.run(a_job("x", queue="A", gpus="1..4"), a_job("y", queue="B", gpus="1..4")).advance(120)
    sizes = world.size("x"), world.size("y")
    decided = len(world.history)
    world.advance(24 * 3600)
    assert (world.size("x"), world.size("y")) == sizes == (2, 2)
    assert len(world.history) == decided
