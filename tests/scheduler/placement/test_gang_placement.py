"""Gangs: all or nothing, several roles together, reservations for the first blocked one, and backfill."""

from tests.scheduler.builders import a_job, a_queue, a_role
from tests.scheduler.world import World, jobs_of


def test_all_roles_start_together_or_not_at_all() -> None:
    roles = [a_role("ps", 1, 1), a_role("worker", 3, 1)]
    world = World("1x4").run(a_job("one"), a_job("gang", roles=roles))
    assert world["gang"].seats == ()
    world.finish("one").settle()
    roles_held = sorted(seat.role for seat in world["gang"].staying)
    assert roles_held == ["ps", "worker", "worker", "worker"]


def test_two_gangs_never_hold_and_wait() -> None:
    world = World("1x4").submit(a_job("x", gpus=3), a_job("y", gpus=3)).settle()
    assert world.running() == {"x"}
    assert world["y"].seats == ()


def test_a_blocked_gang_is_passed_only_by_what_ends_before_its_reservation() -> None:
    """The holder ends within 1000 s at the latest: a job of 100 s passes, one of unknown length does not."""
    world = World("1x4").run(a_job("holder", gpus=3, max_runtime=1000), a_job("gang", gpus=4))
    world.run(a_job("unknown"), a_job("long", max_runtime=5000)).advance(30)
    assert world.running() == {"holder"}
    world.run(a_job("short", max_runtime=100))
    assert world.running() == {"holder", "short"}
    assert world["short"].backfill_until is not None


def test_a_backfilled_job_still_running_when_the_reservation_is_due_is_paused() -> None:
    world = World("1x4").run(a_job("holder", gpus=3, max_runtime=1000), a_job("gang", gpus=4))
    world.run(a_job("short", max_runtime=900))
    assert "short" in world.running()
    world.advance(990).finish("holder").settle().advance(60)
    assert world.running() == {"gang"}
    assert world.pauses() == ["short"]


def test_where_ends_are_unknown_the_reservation_starts_after_ten_minutes() -> None:
    world = World("1x4").run(a_job("holder", gpus=3), a_job("gang", gpus=4)).advance(601)
    world.run(a_job("late")).advance(3600)
    assert world.running() == {"holder"}
    world.finish("holder").settle()
    assert "gang" in world.running()


def test_a_stream_of_small_jobs_does_not_starve_a_gang() -> None:
    """Ends are unknown and singles keep coming: once the ten minutes are over the gang's turn comes."""
    world = World("1x4").run(*jobs_of("default", 4), a_job("gang", gpus=4))
    for i in range(40):
        if "gang" in world.running():
            break
        world.submit(a_job(f"s{i}")).advance(60)
        if singles := world.running():
            world.finish(min(singles, key=lambda name: (world[name].started_at, name))).settle()
    assert "gang" in world.running()


def test_a_reservation_never_delays_other_queues_inside_quota() -> None:
    world = World("1x8", a_queue("A", quota=4), a_queue("B", quota=4))
    world.run(a_job("a1", queue="A", gpus=3), a_job("b1", queue="B", gpus=2))
    world.run(a_job("gang", queue="A", gpus=4)).advance(700)
    world.run(a_job("b2", queue="B", gpus=2))
    assert "b2" in world.running()


def test_a_gang_too_big_for_its_quota_is_passed_by_smaller_ones_inside_it() -> None:
    world = World("1x4", a_queue("A", quota=2), a_queue("B", quota=2)).run(*jobs_of("B", 2))
    world.run(a_job("gang", queue="A", gpus=4), *jobs_of("A", 2))
    assert world.running("A") == {"a1", "a2"}


def test_a_gang_inside_quota_is_served_by_reclaim_whole() -> None:
    world = World("2x4", a_queue("A", quota=4), a_queue("B", quota=4)).run(*jobs_of("B", 8))
    world.run(a_job("gang", queue="A", gpus=4))
    assert world.size("gang") == 4
    assert len(world.pauses()) == 4
