"""Why a job waits: one reason with numbers, who holds what it waits for, a change that truly starts it."""

import re
from collections.abc import Callable

import pytest

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId
from grus.model.resources import GPU
from grus.scheduler.elasticity.throughput_outlook import Outlook
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.changes import change_is_true, why
from tests.scheduler.world import World, jobs_of, two_queues


def full() -> World:
    return two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2)).run(a_job("w", queue="A"))


def gang() -> World:
    return World("1x4").run(a_job("one"), a_job("w", gpus=4))


def limited() -> World:
    world = World("1x4", a_queue("A", quota=1, limit=2), a_queue("B", quota=2))
    return world.run(*jobs_of("A", 2)).run(a_job("w", queue="A"))


def reserved() -> World:
    world = World("1x4", a_queue("A", quota=2, reserved=2), a_queue("B", quota=2))
    return world.run(*jobs_of("B", 2)).run(a_job("w", queue="B"))


def never() -> World:
    return two_queues(a=1, b=2).run(a_job("d", queue="A", type="dev"), a_job("w", queue="A", type="dev"))


def scattered() -> World:
    world = World("2x2").run(a_job("d1", type="dev", avoid_nodes=["n2"]))
    return world.run(a_job("d2", type="dev", avoid_nodes=["n1"]), a_job("w", gpus=2, one_node=True))


def of_a_type() -> World:
    world = World("1x1:A100+1x3:T4").run(a_job("x", gpus="A100:1"))
    return world.run(a_job("w", gpus="A100:1"))


def slices() -> World:
    return World("1x1").run(a_job("x", gpus=0.7)).run(a_job("w", gpus=0.5))


def cold_shoulder() -> World:
    """Nothing but never-preempted work and a gang in front."""
    world = World("1x4").run(a_job("d", gpus=3, type="dev"), a_job("gang", gpus=4)).advance(700)
    return world.run(a_job("w"))


WORLDS = [full, gang, limited, reserved, never, scattered, of_a_type, slices, cold_shoulder]


@pytest.mark.parametrize("make", WORLDS)
def test_applying_the_named_change_starts_the_job(make: Callable[[], World]) -> None:
    world = make()
    assert "w" in world.waiting()
    change_is_true(world, "w")


@pytest.mark.parametrize("make", WORLDS)
def test_every_reason_has_a_code_and_numbers(make: Callable[[], World]) -> None:
    found = why(make(), "w")
    assert found.code
    assert re.search(r"\d", found.sentence), found.sentence


@pytest.mark.parametrize("make", [full, gang, limited, never, scattered, of_a_type, slices])
def test_where_something_can_be_done_it_is_said(make: Callable[[], World]) -> None:
    assert why(make(), "w").change


def test_the_holders_are_named_with_what_they_hold() -> None:
    found = why(full(), "w")
    assert dict(found.holders) == {"a1": GPU, "a2": GPU, "b1": GPU, "b2": GPU}


def test_only_holders_of_what_it_could_use_are_named() -> None:
    world = World("1x1:A100+1x3:T4").run(a_job("x", gpus="A100:1"), a_job("t", gpus="T4:3"))
    assert dict(why(world.run(a_job("w", gpus="A100:1")), "w").holders) == {"x": GPU}


def test_a_gang_that_is_short_of_one_gpu_is_told_to_ask_for_less() -> None:
    """The cheapest change is the one that costs nobody anything."""
    found = why(gang(), "w")
    assert found.fix is not None
    assert found.fix.request is not None


@pytest.mark.parametrize(
    ("make", "word"),
    [(limited, "limit"), (reserved, "reserved"), (never, "never-preempted quota"), (scattered, "scattered")],
)
def test_the_code_names_the_rule_that_stands_in_the_way(make: Callable[[], World], word: str) -> None:
    assert why(make(), "w").code == word


def test_a_job_that_waits_for_another_says_for_which() -> None:
    world = World("1x2").run(a_job("prepare"), a_job("w", after=["prepare"]))
    assert "prepare" in why(world, "w").sentence


def test_a_job_whose_seats_are_being_left_says_so() -> None:
    world = two_queues().run(a_job("a1", queue="A", gpus=4)).submit(a_job("w", queue="B"))
    world.step()
    found = why(world, "w")
    assert "a1" in found.sentence
    assert dict(found.holders) == {"a1": 4 * GPU}


def test_advice_counts_with_those_who_will_be_tried_again_before_the_change_is_done() -> None:
    """To stop one job for another is no help if a third, inside its quota, takes the place meanwhile."""
    world = World("1x1", a_queue("a", quota=1), a_queue("b", quota=0))
    world.submit(
        a_job("retried", queue="a", gpus=0.5, retries=2), a_job("kept", queue="a", gpus=0.25)
    ).settle()
    world.submit(a_job("borrower", queue="b")).settle()
    world.fail("retried")
    assert world["retried"].not_before > world.now
    change_is_true(world, "borrower")
    found = why(world, "borrower")
    assert "kept" not in found.change


def test_asking_why_forgets_nothing_of_those_whose_end_would_help() -> None:
    """To see whether the end of a job helps it is taken out and put back; what was learned of it stays."""
    world = World("1x1", a_queue("A", quota=1)).run(a_job("a1", queue="A", priority=99))
    tag = Tag(kind=WorkloadKind.TRAINING, at=world.now, expires=1e9, period=30.0, boundary=world.now)
    world.note("a1", tag).expect("a1", Outlook((1,), (1.0,), left=99.0))
    world.run(a_job("a2", queue="A", priority=99))
    found = why(world, "a2")
    assert found.fix is not None
    assert found.fix.stop == ("a1",)
    assert world.snapshot.entries[JobId("a1")].tag == tag
    assert world.snapshot.entries[JobId("a1")].outlook == Outlook((1,), (1.0,), left=99.0)
