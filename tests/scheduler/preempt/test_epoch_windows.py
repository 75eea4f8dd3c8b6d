"""What a changed tag matters, and what decisions make of a job's rhythm."""

from dataclasses import replace

import pytest

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId
from grus.model.jobs import Checkpoint
from grus.scheduler.decisions import Pause
from grus.scheduler.explain import explain
from grus.scheduler.preempt.epoch_windows import LONGEST_WAIT, is_news, phase, safely
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of, two_queues

TAG = Tag(
    kind=WorkloadKind.TRAINING,
    at=0.0,
    expires=1e9,
    period=20.0,
    boundary=100.0,
    utilisation=0.8,
    peak_memory=10_000,
)


@pytest.mark.parametrize(
    ("changes", "news"),
    [
        ({"note": "other words", "confidence": 0.3, "at": 55.0, "expires": 2e9}, False),
        ({"boundary": 500.0}, False),  # twenty periods on: the same beat
        ({"boundary": 500.8}, False),
        ({"boundary": 510.0}, True),
        ({"boundary": 497.5}, True),
        ({"period": 20.01}, False),
        ({"period": 30.0}, True),
        ({"period": None, "boundary": None}, True),
        ({"kind": WorkloadKind.IDLE}, True),
        ({"hung_since": 90.0}, True),
        ({"utilisation": 0.85}, False),
        ({"utilisation": 0.5}, True),
        ({"utilisation": None}, True),
        ({"peak_memory": 10_100}, False),
        ({"peak_memory": 12_000}, True),
    ],
)
def test_a_changed_tag_is_news_only_by_what_decisions_look_at(changes: dict[str, object], news: bool) -> None:
    assert is_news(TAG, replace(TAG, **changes), now=600.0) is news  # type: ignore[arg-type]  # fields of Tag


def test_a_first_tag_is_news_and_so_is_its_end() -> None:
    assert is_news(None, TAG, 1.0)
    assert is_news(TAG, None, 1.0)
    assert not is_news(None, None, 1.0)


# --------------------------------------------------------------------------- who gives way, and when


def a_beat(world: World, name: str, *, period: float, since: float, **changes: object) -> None:
    """The job was recognised as a training; so many seconds ago the work of an epoch was surely saved."""
    tag = replace(TAG, at=world.now, period=period, boundary=world.now - since - safely(period))
    world.note(name, replace(tag, **changes))  # type: ignore[arg-type]  # fields of Tag


def borrowed(*, a: float = 1, b: float = 3, jobs: int = 4) -> World:
    """A holds the whole pool, most of it borrowed, for longer than any guard lasts."""
    world = two_queues(a=a, b=b)
    world.run(*jobs_of("A", jobs)).advance(1000)
    return world


def paused_after(world: World, asking: str = "b1") -> dict[str, float]:
    """Who was paused for it, and how many seconds after it came."""
    came = world[asking].submitted_at
    return {a.job: at - came for at, a in world.history if isinstance(a, Pause) and a.preemptor == asking}


def test_among_equals_the_one_nearest_to_the_beginning_of_its_epoch_gives_way() -> None:
    world = borrowed()
    for name, since in (("a2", 45.0), ("a3", 2.0), ("a4", 30.0)):
        a_beat(world, name, period=100.0, since=since)
    world.run(*jobs_of("B", 1))
    assert paused_after(world) == {"a3": pytest.approx(0.0, abs=0.01)}
    assert "it is 2 s into an epoch of 100 s" in world["a3"].reason


def test_a_victim_near_the_end_of_its_epoch_is_paused_at_it() -> None:
    world = borrowed()
    for name, since in (("a2", 45.0), ("a3", 30.0), ("a4", 88.0)):
        a_beat(world, name, period=100.0, since=since)
    world.run(*jobs_of("B", 1))
    assert paused_after(world) == {"a4": pytest.approx(12.0, abs=0.6)}
    assert "it goes at the end of an epoch (one every 100 s)" in world["a4"].reason
    assert "b1" in world.running()


def test_until_then_it_runs_and_both_are_told_so() -> None:
    world = borrowed()
    a_beat(world, "a4", period=100.0, since=88.0)
    world.submit(*jobs_of("B", 1))
    decided = world.step()
    assert (decided.actions, decided.put_off) == ((), ("a4",))
    assert decided.wake_at == pytest.approx(world.now + 12.0, abs=0.01)
    told = explain(world.snapshot, JobId("b1"), world.now)
    assert told.holders == ((JobId("a4"), 1_000_000),)
    assert "a4 is let finish its epoch first, for another 12 s" in told.sentence


def test_a_boundary_later_than_the_bound_is_not_waited_for() -> None:
    world = borrowed()
    for name in ("a1", "a2", "a3", "a4"):
        a_beat(world, name, period=4000.0, since=4000.0 - LONGEST_WAIT - 5.0)
    world.run(*jobs_of("B", 1))
    assert list(paused_after(world).values()) == [pytest.approx(0.0, abs=0.01)]


def test_one_that_has_waited_long_already_does_not_wait_for_epochs() -> None:
    """Its right is new, its wait is not: the bound counts from when it began to wait."""
    world = two_queues(a=4, b=0)
    world.run(*jobs_of("A", 4)).submit(*jobs_of("B", 1)).advance(LONGEST_WAIT)
    for name in ("a1", "a2", "a3", "a4"):
        a_beat(world, name, period=100.0, since=90.0)
    began = world.now
    world.set_queue(a_queue("A", quota=3)).set_queue(a_queue("B", quota=1)).settle()
    assert "b1" in world.running()
    assert [at for at, action in world.history if isinstance(action, Pause)] == [began]


def test_growth_and_people_at_a_prompt_do_not_wait_for_epochs() -> None:
    world = borrowed()
    for name in ("a1", "a2", "a3", "a4"):
        a_beat(world, name, period=100.0, since=90.0)
    world.run(a_job("b1", queue="B", type="dev"))
    assert list(paused_after(world).values()) == [pytest.approx(0.0, abs=0.01)]


def test_all_who_make_room_for_one_go_at_the_same_moment_the_best_for_them_together() -> None:
    """What the first leaves would only lie idle until the second has left too."""
    world = borrowed()
    for name, since in (("a2", 80.0), ("a3", 70.0), ("a4", 85.0)):
        a_beat(world, name, period=100.0, since=since)
    world.run(a_job("b1", queue="B", gpus=3))
    found = paused_after(world)
    assert set(found) == {"a2", "a3", "a4"}
    # Epochs end after 15, 20 and 30 s: then 10 + 15 GPU-seconds are lost and 90 waited; before it is more.
    assert list(found.values()) == [pytest.approx(30.0, abs=0.6)] * 3


def test_a_job_that_saves_nowhere_is_not_taken_for_its_rhythm() -> None:
    """Nobody knows that an epoch that has ended is safe; the one that began last loses least."""
    world = two_queues(a=1, b=3)
    for number, job in enumerate(jobs_of("A", 4)):
        nowhere = replace(job, spec=replace(job.spec, checkpoint=Checkpoint()))
        world.run(nowhere if number == 0 else job)
    world.advance(1000)
    world.saved("a3")
    a_beat(world, "a1", period=100.0, since=1.0)
    world.run(*jobs_of("B", 1))
    assert set(paused_after(world)) == {"a3"}


def test_a_hung_job_gives_way_first_since_it_loses_nothing() -> None:
    world = borrowed()
    world.saved("a4")
    a_beat(world, "a2", period=100.0, since=30.0, hung_since=world.now - 300.0)
    world.advance(30).run(*jobs_of("B", 1))
    assert set(paused_after(world)) == {"a2"}
    assert "it had hung and loses nothing" in world["a2"].reason


def test_a_tag_that_has_expired_says_nothing() -> None:
    tag = replace(TAG, expires=600.0)
    assert phase(tag, 590.0) is not None
    assert phase(tag, 600.0) is None


@pytest.mark.parametrize(
    "kind", [WorkloadKind.IDLE, WorkloadKind.DEV, WorkloadKind.INFERENCE, WorkloadKind.UNKNOWN]
)
def test_only_trainings_have_epochs(kind: WorkloadKind) -> None:
    assert phase(replace(TAG, kind=kind), 590.0) is None


def test_waking_up_a_little_too_early_or_late_is_the_moment_to_go() -> None:
    early, late = phase(TAG, 600.7), phase(TAG, 601.2)
    assert early is not None
    assert late is not None
    assert early.since == 0.0
    assert late.since == pytest.approx(0.2)


def test_the_moment_to_go_is_a_little_after_the_boundary() -> None:
    """A pause before the checkpoint of an epoch is written would cost all of it."""
    at_it, before = phase(TAG, 601.0), phase(TAG, 600.0)
    assert at_it is not None
    assert before is not None
    assert at_it.since == pytest.approx(0.0)
    assert before.ahead == pytest.approx(1.0)
    assert safely(600.0) == pytest.approx(12.0)
