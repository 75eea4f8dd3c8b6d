"""Queues in a tree: quota, limit and reserved at every level; reclaim is judged where two branches part."""

import pytest

from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of


def family(pool: str = "1x4") -> World:
    """P (2) with children P.A (1) and P.B (1), beside Q (2)."""
    return World(
        pool,
        a_queue("P", quota=2),
        a_queue("P.A", parent="P", quota=1),
        a_queue("P.B", parent="P", quota=1),
        a_queue("Q", quota=2),
    )


def test_a_branch_keeps_its_quota_whichever_child_uses_it() -> None:
    """P.A holds three; Q's second GPU is inside quota and takes one back, its third takes nothing."""
    world = family().run(*jobs_of("P.A", 3), *jobs_of("Q", 1)).advance(61)
    world.run(*jobs_of("Q", 1, first=2))
    assert (world.held("P.A"), world.held("Q")) == (2, 2)
    world.run(*jobs_of("Q", 1, first=3)).advance(3600)
    assert (world.held("P.A"), world.held("Q")) == (2, 2)


def test_a_sibling_takes_back_its_own_quota_inside_the_branch() -> None:
    world = family().run(*jobs_of("P.A", 2), *jobs_of("Q", 2)).advance(61)
    world.run(*jobs_of("P.B", 1))
    assert (world.held("P.A"), world.held("P.B"), world.held("Q")) == (1, 1, 2)


def test_a_child_over_its_quota_but_inside_its_parents_reclaims_from_another_branch() -> None:
    """P.A's second GPU is over P.A's quota of one and inside P's of two: Q's borrowed GPU goes."""
    world = family().run(*jobs_of("P.A", 1), *jobs_of("Q", 3))
    world.run(*jobs_of("P.A", 1, first=2))
    assert (world.held("P.A"), world.held("Q")) == (2, 2)


def test_a_branchs_quota_is_filled_first_by_what_is_inside_its_childrens() -> None:
    """P.A borrows P.B's GPU inside P's quota; when P.B asks, P.A's second is the one over quota."""
    world = family().run(*jobs_of("P.A", 2), *jobs_of("Q", 2))
    world.run(*jobs_of("P.B", 1))
    assert world.running("Q") == {"q1", "q2"}
    assert len(world.running("P.A")) == 1
    assert world.running("P.B") == {"p.b1"}


def test_a_limit_holds_at_every_level() -> None:
    world = World(
        "1x8",
        a_queue("P", quota=2, limit=3),
        a_queue("P.A", parent="P", quota=1),
        a_queue("P.B", parent="P", quota=1, limit=1),
    )
    world.run(*jobs_of("P.B", 3), *jobs_of("P.A", 4)).advance(3600)
    assert (world.held("P.B"), world.held("P")) == (1, 3)


def test_reserved_holds_at_every_level() -> None:
    """P keeps two for itself, one of them for P.A: P.B gets one of the two, others none of them."""
    world = World(
        "1x4",
        a_queue("P", quota=2, reserved=2),
        a_queue("P.A", parent="P", quota=1, reserved=1),
        a_queue("P.B", parent="P", quota=1),
        a_queue("Q", quota=2, reserved=2),
    )
    world.run(*jobs_of("P.B", 3), *jobs_of("Q", 3)).advance(3600)
    assert (world.held("P.B"), world.held("Q")) == (1, 2)
    world.run(*jobs_of("P.A", 1))
    assert world.held("P.A") == 1
    assert world.pauses() == []


def test_fairness_holds_between_branches_not_between_their_leaves() -> None:
    """P has two children, Q none, equal weights: P's together get as much as Q."""
    world = World("1x8", a_queue("P"), a_queue("P.A", parent="P"), a_queue("P.B", parent="P"), a_queue("Q"))
    world.submit(*jobs_of("P.A", 8), *jobs_of("P.B", 8), *jobs_of("Q", 8)).settle()
    assert (world.held("P.A"), world.held("P.B"), world.held("Q")) == (2, 2, 4)


def test_fairness_between_branches_is_reached_by_reclaim() -> None:
    world = World("1x8", a_queue("P"), a_queue("P.A", parent="P"), a_queue("P.B", parent="P"), a_queue("Q"))
    world.run(*jobs_of("P.A", 8)).advance(61)
    world.submit(*jobs_of("Q", 8)).settle()
    assert (world.held("P.A"), world.held("Q")) == (4, 4)
    world.advance(61).submit(*jobs_of("P.B", 8)).settle()
    assert (world.held("P.A"), world.held("P.B"), world.held("Q")) == (2, 2, 4)


def test_a_deep_tree_serves_a_leaf_inside_quota() -> None:
    world = World(
        "1x4",
        a_queue("R", quota=4),
        a_queue("R.P", parent="R", quota=2),
        a_queue("R.P.A", parent="R.P", quota=2),
        a_queue("R.Q", parent="R", quota=2),
        a_queue("R.Q.B", parent="R.Q", quota=2),
    )
    world.run(*jobs_of("R.Q.B", 4)).run(a_job("a", queue="R.P.A", gpus=2))
    assert "a" in world.running()
    assert world.held("R.Q") == 2


@pytest.mark.parametrize("saved", ["p.a2", "p.b2"])
def test_least_lost_work_orders_the_pieces_over_quota_where_branches_part(saved: str) -> None:
    """P's children hold three each, two of them over quota where Q's branch parts: who just saved goes."""
    world = family("1x6").run(*jobs_of("P.A", 3), *jobs_of("P.B", 3)).advance(600)
    world.saved(saved).settle()
    world.submit(*jobs_of("Q", 2)).settle()
    assert world.held("Q") == 2
    assert saved in world.pauses()
    assert not {"p.a1", "p.b1"} & set(world.pauses())
