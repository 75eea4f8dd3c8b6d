"""A user's limit of GPUs: never passed by a start, growth or a trade, and nobody else waits for it."""

import random

import pytest

from grus.model.identifiers import JobId, UserName
from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.explain import explain
from grus.scheduler.placement.feasibility import above_limit
from grus.scheduler.queues.queue_usage_tree import queue_states
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, two_queues


def test_a_user_holds_the_limit_at_most_over_all_queues() -> None:
    world = two_queues(a=4, b=4).limit(ann=3)
    world.run(*(a_job(f"j{n}", queue="AB"[n % 2], user="ann") for n in range(6))).advance(3600)
    assert world.held_by("ann") == 3
    assert len(world.waiting()) == 3


def test_the_next_job_starts_when_one_of_the_user_ends() -> None:
    world = World("1x4").limit(ann=1).run(a_job("a1", user="ann"), a_job("a2", user="ann"))
    assert world.waiting() == {"a2"}
    assert world.finish("a1").settle().running() == {"a2"}


def test_others_who_ask_for_the_same_pass_a_user_at_the_limit() -> None:
    world = World("1x4").limit(ann=1)
    world.run(
        *(a_job(f"a{n}", user="ann") for n in range(5)), *(a_job(f"b{n}", user="bob") for n in range(3))
    )
    assert world.running() == {"a0", "b0", "b1", "b2"}


def test_a_gang_at_its_users_limit_holds_no_gpus_back() -> None:
    world = World("1x4").limit(ann=2)
    world.run(a_job("a1", user="ann", gpus=1), a_job("gang", user="ann", gpus=2))
    world.run(*(a_job(f"b{n}", user="bob") for n in range(3)))
    assert world.running() == {"a1", "b0", "b1", "b2"}


def test_an_elastic_job_grows_to_its_users_limit_and_others_get_the_rest() -> None:
    world = (
        World("1x8")
        .limit(ann=3)
        .run(a_job("a", user="ann", gpus="1..8"), a_job("b", user="bob", gpus="1..8"))
    )
    assert (world.size("a"), world.size("b")) == (3, 5)


def test_jobs_of_others_grow_inside_quota_though_a_job_waits_for_its_users_limit() -> None:
    world = two_queues(a=3, b=1).limit(ann=1)
    world.run(a_job("b1", queue="B", user="eve", gpus="1..4"))
    world.run(a_job("a1", queue="A", user="ann"), a_job("a2", queue="A", user="ann"))
    world.run(a_job("a3", queue="A", user="bob", gpus="1..2")).advance(3600)
    assert world.waiting() == {"a2"}
    assert world.size("a3") == 2


def test_a_users_own_surplus_makes_room_for_a_waiting_minimum() -> None:
    world = World("1x4").limit(ann=3).run(a_job("a", user="ann", gpus="1..4"))
    assert world.size("a") == 3
    world.run(a_job("b", user="ann")).advance(600)
    assert world.running() == {"a", "b"}
    assert world.held_by("ann") == 3


def test_a_lowered_limit_takes_nothing_and_gives_no_more() -> None:
    world = World("1x4").run(a_job("a1", user="ann", gpus=2), a_job("a2", user="ann"))
    world.limit(ann=1).settle().run(a_job("a3", user="ann")).advance(3600)
    assert world.running() == {"a1", "a2"}
    assert world.limit().settle().running() == {"a1", "a2", "a3"}


def test_halves_count_as_themselves() -> None:
    world = World("1x4").limit(ann=1).run(*(a_job(f"a{n}", user="ann", gpus=0.5) for n in range(4)))
    assert world.held_by("ann") == 1


def test_why_names_the_limit_the_jobs_of_the_user_and_the_change() -> None:
    world = World("1x4").limit(ann=1).run(a_job("a1", user="ann", priority=100), a_job("a2", user="ann"))
    told = explain(world.snapshot, JobId("a2"), world.now)
    assert told.code == "user limit"
    assert told.sentence == "needs 1; user ann holds 1 GPU and may hold 1 at most"
    assert told.holders == (("a1", GPU),)
    assert told.change == "raise the limit of user ann to 2"
    world.limit(ann=2).settle()
    assert world.running() == {"a1", "a2"}


def test_stopping_a_job_of_the_user_is_named_where_a_higher_limit_would_not_help() -> None:
    world = World("1x1").limit(ann=1).run(a_job("a1", user="ann", priority=100), a_job("a2", user="ann"))
    assert explain(world.snapshot, JobId("a2"), world.now).change == "stop a1 (a1)"


def test_jobs_beyond_the_limit_are_no_demand_of_their_queue() -> None:
    world = two_queues(a=1, b=1).limit(ann=1)
    world.run(*(a_job(f"a{n}", queue="A", user="ann") for n in range(9)))
    states = {str(one.name): one for one in queue_states(world.snapshot, world.now)}
    assert states["A"].demand == GPU


def test_a_request_above_the_limit_can_never_run() -> None:
    world = World("1x4")
    assert above_limit(world.snapshot, a_job("a", gpus=2).spec, 2 * GPU) == ""
    assert above_limit(world.snapshot, a_job("a", gpus="1..4").spec, GPU) == ""
    assert "at least 2 GPUs, but you may hold 1 at most" in above_limit(
        world.snapshot, a_job("a", gpus=2).spec, GPU
    )


SIZES: list[int | float | str] = [1, 1, 2, 0.5, "1..4", "2..6"]


@pytest.mark.parametrize("seed", range(12))
def test_no_history_lets_a_user_pass_the_limit(seed: int) -> None:
    """The invariants are checked after every step, and every decision is the same on a snapshot made anew."""
    chance = random.Random(seed)
    world = World("2x4", a_queue("A", quota=4), a_queue("B", quota=2, limit=6), seed=seed)
    world.limit(ann=chance.randint(1, 4), bob=chance.randint(1, 6))
    for number in range(25):
        size = chance.choice(SIZES)
        user = chance.choice(["ann", "bob", "eve"])
        priority = chance.choice([None, 50, 100])
        world.submit(a_job(f"j{number}", queue=chance.choice("AB"), gpus=size, user=user, priority=priority))
        alive = [job.id for job in world.jobs.values() if job.phase is Phase.RUNNING]
        if alive and chance.random() < 0.3:
            world.finish(chance.choice(alive))
        if chance.random() < 0.1:
            world.limit(ann=chance.randint(1, 4))
        world.settle()
    most = world.snapshot.user_limits.get(UserName("ann"))
    assert most is not None
