"""Fair shares – quota first, the rest by weight, poured like water – and to whom a free GPU is given."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.scheduler.queues.queue_usage_tree import QueueState, queue_states
from tests.scheduler import reference
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of


def states(world: World) -> dict[str, QueueState]:
    return {state.name: state for state in queue_states(world.snapshot, world.now)}


def shares(world: World) -> dict[str, float]:
    """Rounded shares in GPUs."""
    return {name: state.fair_share / GPU for name, state in states(world).items()}


def test_a_queue_that_wants_less_leaves_its_rest_to_the_others() -> None:
    world = World("1x12", a_queue("A"), a_queue("B"), a_queue("C"))
    world.submit(*jobs_of("A", 1), *jobs_of("B", 12), *jobs_of("C", 12))
    assert shares(world) == {"A": 1, "B": pytest.approx(5.5, abs=0.5), "C": pytest.approx(5.5, abs=0.5)}
    assert sum(shares(world).values()) == 12


def test_idle_reserved_gpus_are_shared_with_nobody() -> None:
    world = World("1x12", a_queue("A", quota=4, reserved=4), a_queue("B"), a_queue("C"))
    world.submit(*jobs_of("A", 1), *jobs_of("B", 12), *jobs_of("C", 12))
    assert shares(world) == {"A": 1, "B": 4, "C": 4}


def test_quota_that_is_not_wanted_is_shared() -> None:
    world = World("1x12", a_queue("A", quota=4), a_queue("B"), a_queue("C"))
    world.submit(*jobs_of("A", 1), *jobs_of("B", 12), *jobs_of("C", 12))
    assert sum(shares(world)[name] for name in "BC") == 11


def test_demand_is_capped_by_the_limit() -> None:
    world = World("1x12", a_queue("A", limit=3), a_queue("B"))
    world.submit(*jobs_of("A", 12), *jobs_of("B", 12))
    assert states(world)["A"].demand == 3 * GPU
    assert shares(world) == {"A": 3, "B": 9}


def test_demand_counts_maxima_of_what_runs_and_may_start() -> None:
    """Not what waits for another job or for a person."""
    world = World("1x4", a_queue("A", quota=4)).run(a_job("e", queue="A", gpus="1..3"))
    world.submit(a_job("w", queue="A", gpus="2..6"), a_job("after", queue="A", gpus=9, after=["w"]))
    world.submit(a_job("p", queue="A", gpus=7)).pause("p")
    assert states(world)["A"].demand == 9 * GPU


def test_a_branch_adds_its_childrens_idle_reserved_to_its_demand() -> None:
    world = World(
        "1x12",
        a_queue("P", quota=4, reserved=4),
        a_queue("P.A", parent="P", quota=3, reserved=3),
        a_queue("P.B", parent="P"),
        a_queue("Q"),
    )
    world.submit(*jobs_of("P.B", 2), *jobs_of("Q", 12))
    found = states(world)
    assert found["P"].demand == 5 * GPU
    assert shares(world) == {"P": 5, "P.A": 0, "P.B": 2, "Q": 7}


def test_a_parents_rounded_share_is_its_childrens_pool() -> None:
    """Three equal branches share 10: 4, 3, 3. Children of the first share its 4, not 3.33."""
    world = World(
        "1x10",
        a_queue("P"),
        a_queue("P.A", parent="P"),
        a_queue("P.B", parent="P", weight=3),
        a_queue("Q"),
        a_queue("R"),
    )
    world.submit(*jobs_of("P.A", 10), *jobs_of("P.B", 10), *jobs_of("Q", 10), *jobs_of("R", 10))
    found = shares(world)
    assert sorted(found[name] for name in "PQR") == [3, 3, 4]
    assert found["P.A"] + found["P.B"] == found["P"]
    exact = states(world)["P.B"].exact_share / GPU
    assert exact == pytest.approx(found["P"] * 3 / 4)


def test_a_queue_whose_wish_is_met_is_not_rounded() -> None:
    world = World("1x4", a_queue("A"), a_queue("B")).submit(
        a_job("half", queue="A", gpus=0.5), *jobs_of("B", 9)
    )
    assert shares(world) == {"A": 0.5, "B": 3}


def test_the_state_of_a_queue_says_where_it_stands() -> None:
    world = World("1x6", a_queue("A", quota=2), a_queue("B", quota=2)).run(*jobs_of("A", 2))
    assert states(world)["A"].state == "in quota"
    world.run(a_job("a3", queue="A"))
    assert states(world)["A"].state.startswith("over quota")
    world.run(*jobs_of("A", 3, first=4))
    world.submit(*jobs_of("B", 6))
    assert states(world)["A"].state == "over fair share"


@pytest.mark.parametrize("weights", [(2, 1), (1, 2), (3, 1)])
def test_gpus_are_given_in_proportion_to_weight(weights: tuple[int, int]) -> None:
    a, b = weights
    world = World(f"1x{4 * (a + b)}", a_queue("A", weight=a), a_queue("B", weight=b))
    world.submit(*jobs_of("B", 40), *jobs_of("A", 40)).settle()
    assert (world.held("A"), world.held("B")) == (4 * a, 4 * b)


def test_inside_quota_the_queue_that_is_farthest_below_its_quota_is_given_first() -> None:
    """(held + 1) / quota: with 3 free and quotas 4 and 2, A's two and B's one come first."""
    world = World("1x6", a_queue("A", quota=4), a_queue("B", quota=2))
    world.lose("n1-3", "n1-4", "n1-5")
    world.submit(*jobs_of("B", 6), *jobs_of("A", 6)).settle()
    assert (world.held("A"), world.held("B")) == (2, 1)


def test_ties_go_to_the_queue_that_has_not_started_for_longest() -> None:
    world = World("1x1", a_queue("A"), a_queue("B"))
    world.submit(*jobs_of("A", 3), *jobs_of("B", 3)).settle()
    turns = []
    for _ in range(6):
        name = world.running().pop()
        turns.append(world[name].spec.queue)
        world.advance(5).finish(name).settle()
    assert turns == ["A", "B"] * 3


def test_submission_order_between_queues_does_not_matter() -> None:
    outcomes = set()
    for order in (("A", "B"), ("B", "A")):
        world = World("1x5", a_queue("A", quota=1), a_queue("B", quota=1))
        for name in order:
            world.submit(*jobs_of(name, 5))
        world.settle()
        outcomes.add((world.held("A"), world.held("B")))
    assert outcomes == {(3, 2)}


# ------------------------------------------------------------------------- against the naive reference


@st.composite
def flat_queues(draw: st.DrawFn) -> tuple[int, list[Queue], list[int]]:
    pool = draw(st.integers(1, 24))
    number = draw(st.integers(1, 5))
    left, queues, wishes = pool, [], []
    for i in range(number):
        quota = draw(st.integers(0, left))
        left -= quota
        reserved = draw(st.integers(0, quota))
        weight = draw(st.sampled_from([1.0, 2.0, 3.0, 0.5]))
        limit = draw(st.none() | st.integers(quota, quota + 6))
        queues.append(a_queue(f"q{i}", quota=quota, reserved=reserved, weight=weight, limit=limit))
        wishes.append(draw(st.integers(0, 12)))
    return pool, queues, wishes


def agrees_with_reference(world: World) -> None:
    exact, rounded = reference.fair_shares(world.facts())
    for queue in world.queues:
        state = states(world)[queue.name]
        assert state.demand == reference.demand(world.facts(), queue)
        assert state.exact_share == pytest.approx(float(exact[queue.name]), abs=2)
        assert abs(state.fair_share - rounded[queue.name]) < GPU + 2, (queue.name, state.fair_share)
    for parent in {queue.parent for queue in world.queues}:
        below = [queue.name for queue in world.queues if queue.parent == parent]
        total = sum(states(world)[name].fair_share for name in below)
        assert total == pytest.approx(float(sum(rounded[name] for name in below)), abs=2 * len(below))


@given(flat_queues())
def test_shares_agree_with_the_reference(case: tuple[int, Sequence[Queue], Sequence[int]]) -> None:
    pool, queues, wishes = case
    world = World(f"1x{pool}", *queues)
    for queue, wish in zip(queues, wishes, strict=True):
        world.submit(*jobs_of(queue.name, wish))
    agrees_with_reference(world)


@given(flat_queues(), st.lists(st.integers(0, 6), min_size=2, max_size=3))
def test_shares_of_a_tree_agree_with_the_reference(
    case: tuple[int, Sequence[Queue], Sequence[int]], wishes: Sequence[int]
) -> None:
    """The first queue becomes a branch whose children split its quota."""
    pool, queues, others = case
    top = queues[0]
    kids = [
        a_queue(f"k{i}", parent=top.name, quota=top.quota.total // GPU // 3, weight=i + 1.0)
        for i in range(len(wishes))
    ]
    world = World(f"1x{pool}", *queues, *kids)
    for queue, wish in zip([*kids, *queues[1:]], [*wishes, *others[1:]], strict=True):
        world.submit(*jobs_of(queue.name, wish))
    # A tie may be rounded either way at the top, and what is below follows: compare where it agrees.
    exact, rounded = reference.fair_shares(world.facts())
    found = states(world)
    if found[top.name].fair_share == rounded[top.name]:
        agrees_with_reference(world)
    assert found[top.name].exact_share == pytest.approx(float(exact[top.name]), abs=2)
