"""Quota, limit and reserved: what a queue deserves, holds at most, and never lends; the walk inside quota."""

import pytest

from grus.model.identifiers import JobId
from grus.model.resources import GPU
from grus.scheduler.explain import explain
from grus.scheduler.placement.feasibility import never_fits
from grus.scheduler.queues.queue_usage_tree import QueueState, queue_states
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of, two_queues


def state(world: World, name: str) -> QueueState:
    return next(found for found in queue_states(world.snapshot, world.now) if found.name == name)


def test_a_request_inside_quota_does_not_wait_for_the_borrowers_first_minute() -> None:
    """The minimum run time guards never against a request inside quota."""
    world = two_queues().run(a_job("a1", queue="A", gpus=4))
    began = world.now
    world.run(a_job("b1", queue="B"))
    assert world.running() == {"b1"}
    assert world.now - began < 10


def test_a_queue_is_never_above_its_limit_even_with_idle_gpus() -> None:
    world = World("1x4", a_queue("A", quota=1, limit=2), a_queue("B", quota=3))
    world.submit(*jobs_of("A", 4)).settle().advance(3600)
    assert world.held("A") == 2


def test_a_gang_that_would_cross_the_limit_waits_although_its_queue_is_below_it() -> None:
    world = World("1x4", a_queue("A", quota=1, limit=3))
    world.run(a_job("a1", queue="A", gpus=2), a_job("a2", queue="A", gpus=2)).advance(3600)
    assert world.held("A") == 2


def test_what_was_given_back_counts_again_when_it_is_held_again() -> None:
    world = World("1x4", a_queue("A", quota=1, limit=3)).run(a_job("a1", queue="A", gpus="1..3"))
    world.scale("a1", 1, 1).settle().scale("a1", 3, 3).settle()
    assert world.size("a1") == 3
    world.run(a_job("a2", queue="A"))
    assert world.held("A") == 3


def test_an_elastic_job_grows_only_to_its_queues_limit() -> None:
    world = World("1x4", a_queue("A", quota=1, limit=3)).run(a_job("a1", queue="A", gpus="1..4"))
    assert world.size("a1") == 3


def test_a_fraction_counts_as_itself() -> None:
    """Quota 1 covers two halves; a third half is over quota and goes when B wants its three."""
    world = two_queues(a=1, b=3)
    world.run(*jobs_of("A", 3, gpus=0.5))
    assert world.held("A") == 1.5
    world.run(*jobs_of("B", 3))
    assert world.held("A") == 1.0
    assert world.held("B") == 3.0
    assert world.waiting() == {"a3"}


def test_a_memory_slice_counts_as_its_share_of_the_device_it_is_on() -> None:
    world = World("1x2").run(a_job("half", gpus="8GB"))
    assert world.size("half") == 0.5
    assert state(world, "default").held == GPU // 2


def test_a_waiting_memory_slice_counts_as_its_share_of_the_largest_device_allowed() -> None:
    world = World("1x1:A100+1x1:RTX3060", a_queue("A", quota=2)).submit(a_job("s", queue="A", gpus="8GB"))
    assert state(world, "A").demand == GPU // 10
    world.submit(a_job("t", queue="A", gpus="6GB", types=["RTX3060"]))
    assert state(world, "A").demand == GPU // 10 + GPU // 2


def test_gpus_used_from_outside_count_as_busy() -> None:
    world = World("1x4").change_device("n1-0", outside="pid 4711 python, user 1000")
    world.run(*jobs_of("default", 4))
    assert len(world.running()) == 3
    assert "n1-0" not in {device for name in world.running() for device in world.devices_of(name)}


def test_a_quota_by_type_is_judged_by_type() -> None:
    """B borrowed A100s; A's A100 quota takes them back, while its plain quota leaves B's others alone."""
    world = World(
        "1x2:A100+1x2:T4",
        a_queue("A", quota={"A100": 2, "any": 0}),
        a_queue("B", quota={"any": 2, "A100": 0}),
    )
    world.run(*[a_job(f"b{i}", queue="B") for i in range(4)])
    world.run(a_job("a1", queue="A", gpus="A100:2"))
    assert world.size("a1") == 2
    assert world.held("B") == 2


def test_any_covers_the_types_without_a_number_of_their_own() -> None:
    """A's quota of one A100 and one of any other type: a second A100 is over quota, a T4 is not."""
    world = World("1x2:A100+1x2:T4", a_queue("A", quota={"A100": 1, "any": 1}), a_queue("B", quota=2))
    world.run(a_job("b1", queue="B", gpus="A100:2"), a_job("b2", queue="B", gpus="T4:2"))
    assert world.held("B") == 4
    world.run(a_job("a1", queue="A", gpus="T4:1", type="dev"))
    assert "a1" in world.running()


def test_after_a_loss_effective_quota_shrinks_towards_reserved() -> None:
    """reserved + (quota − reserved) × f with f = (healthy − Σ reserved) / Σ (quota − reserved)."""
    world = World("1x8", a_queue("A", quota=4, reserved=2), a_queue("B", quota=4))
    assert state(world, "A").effective_quota == 4 * GPU
    world.lose("n1-0", "n1-1")
    assert state(world, "A").effective_quota == pytest.approx(2 * GPU + 2 * GPU * 2 / 3, abs=1)
    assert state(world, "B").effective_quota == pytest.approx(4 * GPU * 2 / 3, abs=1)
    assert state(world, "A").quota == 4 * GPU


def test_running_never_preempted_work_precedes_even_reserved_after_a_loss() -> None:
    """B's dev job runs on; A cannot have its reserved two any more, and waits."""
    world = World("1x4", a_queue("A", quota=2, reserved=2), a_queue("B", quota=2))
    world.run(a_job("d", queue="B", gpus=2, type="dev"))
    free = sorted({"n1-0", "n1-1", "n1-2", "n1-3"} - world.devices_of("d"))
    world.lose(free[0]).settle()
    world.run(*jobs_of("A", 2)).advance(3600)
    assert "d" in world.running()
    assert world.held("A") == 1


def test_after_a_loss_the_sum_of_held_and_reserved_does_not_rise() -> None:
    """B may not start anything on what A's reserved would need."""
    world = World("1x4", a_queue("A", quota=2, reserved=2), a_queue("B", quota=2))
    world.lose("n1-0", "n1-1").settle()
    world.run(*jobs_of("B", 2)).advance(3600)
    assert world.held("B") == 0
    world.run(*jobs_of("A", 2))
    assert world.held("A") == 2


def test_priority_decides_who_is_inside_quota() -> None:
    """A urgent waiting job fills the quota before a running one of lower priority."""
    world = two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2))
    world.run(a_job("urgent", queue="A", priority=60))
    assert "urgent" in world.running()
    assert world.held("A") == 2
    assert world.held("B") == 2


def test_age_decides_between_equals() -> None:
    world = World("1x1").run(*jobs_of("default", 1))
    world.submit(a_job("second"), a_job("third")).settle()
    world.finish("default1").settle()
    assert world.running() == {"second"}


def test_users_of_a_queue_take_turns() -> None:
    """Ann's four jobs came first; Bob's still gets one of the two GPUs."""
    world = World("1x2")
    world.submit(*[a_job(f"ann{i}", user="ann") for i in range(4)], a_job("bob", user="bob")).settle()
    assert world.running() == {"ann0", "bob"}


def test_one_that_does_not_fit_the_quota_does_not_stop_the_walk() -> None:
    """a1 needs three of a quota of two: over quota. a2 behind it is inside, and takes back its GPU."""
    world = two_queues().run(*jobs_of("B", 4))
    world.run(a_job("a1", queue="A", gpus=3), a_job("a2", queue="A"))
    assert "a2" in world.running()
    assert "a1" not in world.running()


def test_surplus_is_inside_quota_only_when_all_its_queues_minima_are() -> None:
    """Alone the elastic job would take its quota of three back; a minimum that does not fit forbids it."""
    queues = a_queue("A", quota=3), a_queue("B", quota=1)
    alone = World("1x4", *queues).run(*jobs_of("B", 4), a_job("e", queue="A", gpus="1..3"))
    assert alone.size("e") == 3
    world = World("1x4", *queues)
    world.run(*jobs_of("B", 4))
    world.submit(a_job("e", queue="A", gpus="1..3"), a_job("r", queue="A", gpus=3)).settle()
    assert world.size("e") == 1


def test_a_resumed_job_keeps_its_place_by_its_first_submit() -> None:
    """a1 was paused; a later a3 of the same priority does not pass it."""
    world = two_queues().run(a_job("a2", queue="A", gpus=2), a_job("a1", queue="A"), a_job("b1", queue="B"))
    world.run(a_job("b2", queue="B"), a_job("a3", queue="A"))
    assert world.paused() == {"a1"}
    world.finish("b1").settle()
    assert "a1" in world.running()
    assert "a3" not in world.running()


def test_a_person_s_pause_ends_only_by_resume() -> None:
    world = World("1x2").run(a_job("one")).pause("one").settle().advance(3600)
    assert world.paused() == {"one"}
    world.resume("one").settle()
    assert world.running() == {"one"}


def test_a_job_waits_for_what_it_comes_after_and_for_its_back_off() -> None:
    world = World("1x2").run(a_job("prepare", retries=1), a_job("train", after=["prepare"]))
    assert world.running() == {"prepare"}
    world.fail("prepare", back_off=30).settle()
    assert world.running() == set()
    world.advance(31)
    assert world.running() == {"prepare"}
    world.finish("prepare").settle()
    assert world.running() == {"train"}


TYPED = {"A100": 2, "any": 4}


def test_non_preemptible_work_stays_inside_its_quota_for_each_type() -> None:
    world = World("1x4:A100+1x4:T4", a_queue("A", quota=TYPED), a_queue("B", quota={"A100": 2}))
    world.run(*(a_job(f"a{n}", queue="A", gpus="A100:1", type="dev") for n in (1, 2, 3)))
    assert world.running() == {"a1", "a2"}
    world.run(a_job("b", queue="B", gpus="A100:2"))
    assert world.running() == {"a1", "a2", "b"}
    why = explain(world.snapshot, JobId("a3"), world.now)
    assert why.code == "never-preempted quota"
    assert "needs 1 of type A100; A uses 2 of 2 in its quota for A100" in why.sentence
    world.finish("a1").settle()
    assert "a3" in world.running()


def test_non_preemptible_work_of_any_type_starts_on_the_type_that_has_quota_left() -> None:
    world = World("1x4:A100+1x4:T4", a_queue("A", quota=TYPED), a_queue("B", quota={"A100": 2}))
    world.run(*(a_job(f"a{n}", queue="A", priority=100) for n in range(6)))
    assert len(world.running("A")) == 6
    world.run(a_job("b", queue="B", gpus="A100:2"))
    assert "b" in world.running()


def test_non_preemptible_work_leaves_other_queues_the_types_that_their_quotas_need() -> None:
    """B's quota names no type; on A100s its work would keep A from its own."""
    world = World("1x4:A100+1x4:T4", a_queue("A", quota={"A100": 4}), a_queue("B", quota=4))
    world.run(*(a_job(f"b{n}", queue="B", priority=100) for n in range(4)))
    world.run(a_job("a", queue="A", gpus="A100:4", one_node=True))
    assert len(world.running()) == 5
    world.run(a_job("more", queue="B", gpus="A100:1", priority=100))
    assert "more" in world.waiting()


def test_non_preemptible_work_takes_back_the_type_that_it_may_use() -> None:
    """T4s are lent to A; B's session may not have an idle A100, which A deserves, and so reclaims a T4."""
    world = World("1x4:A100+1x4:T4", a_queue("A", quota={"A100": 4}), a_queue("B", quota=4))
    world.run(*(a_job(f"a{n}", queue="A", gpus="T4:1") for n in range(4)))
    world.run(a_job("b", queue="B", priority=100))
    assert "b" in world.running()
    assert world.devices_of("b") <= {f"n2-{n}" for n in range(4)}


def test_a_non_preemptible_job_beyond_its_quota_for_a_type_can_never_run() -> None:
    world = World("1x4:A100+1x4:T4", a_queue("A", quota=TYPED))
    why = never_fits(world.snapshot, a_job("a", queue="A", gpus="A100:3", type="dev").spec)
    assert "needs 3 of type A100; A uses 0 of 2 in its quota for A100" in why
    assert "the nearest request that fits is gpu: 2" in why
    assert never_fits(world.snapshot, a_job("a", queue="A", gpus="A100:3").spec) == ""


def test_quotas_above_the_pool_do_not_keep_all_sessions_waiting() -> None:
    queues = (a_queue("A", quota={"A100": 8}, oversubscribe=True), a_queue("B", quota=4, oversubscribe=True))
    world = World("1x4:A100+1x4:T4", *queues)
    world.run(
        a_job("a", queue="A", gpus="A100:1", type="dev"), a_job("b", queue="B", gpus="T4:1", type="dev")
    )
    assert world.running() == {"a", "b"}
