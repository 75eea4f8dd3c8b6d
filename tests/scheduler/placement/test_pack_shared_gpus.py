"""Two jobs on one GPU: only who allows it, only where it should pay, and never at the cost of others."""

import pytest

from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.decisions import Share, Start
from grus.scheduler.state.gpu_footprint import Footprint, predicted, worth_trying
from tests.scheduler.builders import GB, a_job, a_queue
from tests.scheduler.world import World

LIGHT, HEAVY = 0.4, 0.95


def a_footprint(name: str = "light", use: float = LIGHT, memory: int = 4, **gains: float) -> Footprint:
    return Footprint(name, use, memory * GB, tuple(sorted(gains.items())))


def a_pair(pool: str = "1x1", **of_guest: object) -> World:
    """One GPU with a host, and a guest that waits for it; what both take is known."""
    world = World(pool).run(a_job("host", shares=True))
    world.gauge("host", a_footprint()).settle()
    world.submit(a_job("guest", shares=True, **of_guest))  # type: ignore[arg-type]  # fields of a job
    return world.gauge("guest", a_footprint()).settle()


def shares(world: World) -> dict[str, float]:
    return {str(job.id): job.held / GPU for job in world.jobs.values() if job.seats}


def test_two_light_jobs_share_the_one_gpu_there_is() -> None:
    world = a_pair()
    assert shares(world) == {"host": 0.5, "guest": 0.5}
    assert world.devices_of("host") == world.devices_of("guest")
    assert world["guest"].guest_of == "host"
    assert "predicted to do 2.00 times" in world["guest"].reason
    assert "shares n1-0 with guest (guest)" in world["host"].reason


def test_the_host_gives_its_half_before_the_guest_starts() -> None:
    world = a_pair()
    steps = [action for _, action in world.history[1:]]
    assert [type(action) for action in steps] == [Share, Start]
    assert steps[0].job == "host"
    assert world["host"].attempt == 1, "its worker was not started anew"
    assert world["host"].generation == 1


@pytest.mark.parametrize("who", ["host", "guest"])
def test_a_job_that_does_not_allow_it_never_shares(who: str) -> None:
    world = World("1x1").run(a_job("host", shares=who != "host"))
    world.gauge("host", a_footprint()).settle()
    world.submit(a_job("guest", shares=who != "guest")).gauge("guest", a_footprint()).settle()
    assert shares(world) == {"host": 1.0}


@pytest.mark.parametrize("known", ["host", "guest", "neither"])
def test_a_pair_whose_use_is_unknown_is_not_packed(known: str) -> None:
    world = World("1x1").run(a_job("host", shares=True), a_job("guest", shares=True))
    if known != "neither":
        world.gauge(known, a_footprint()).settle()
    assert shares(world) == {"host": 1.0}


@pytest.mark.parametrize(
    ("footprint", "packed"),
    [
        (a_footprint(use=HEAVY), True),  # 1.35 together: still more than 1.2
        (a_footprint(use=LIGHT, memory=10), True),  # 4 + 10 of 16 GB
        (a_footprint(use=LIGHT, memory=11), False),  # beyond nine tenths
        (a_footprint("other", HEAVY, light=1.5), True),  # measured counts more than predicted
        (a_footprint("other", LIGHT, light=1.05), False),
    ],
)
def test_a_pair_is_tried_if_its_memory_fits_and_it_should_gain(footprint: Footprint, packed: bool) -> None:
    world = World("1x1").run(a_job("host", shares=True))
    world.gauge("host", a_footprint()).submit(a_job("guest", shares=True)).gauge("guest", footprint).settle()
    assert (shares(world) == {"host": 0.5, "guest": 0.5}) is packed


def test_two_heavy_jobs_are_predicted_to_gain_too_little() -> None:
    heavy = a_footprint(use=HEAVY)
    assert predicted(heavy, heavy) == pytest.approx(1 / HEAVY)
    assert worth_trying(heavy, heavy) is None
    assert worth_trying(a_footprint(use=0.0), a_footprint(use=0.5)) == 2.0


def test_nobody_shares_while_a_gpu_is_idle() -> None:
    world = a_pair("1x2")
    assert shares(world) == {"host": 1.0, "guest": 1.0}


def test_a_pair_that_was_measured_to_lose_is_parted_and_the_guest_goes_on_alone() -> None:
    world = a_pair()
    losing = a_footprint(light=0.9)
    world.gauge("host", losing).gauge("guest", losing).settle()
    assert shares(world) == {"host": 1.0}
    assert "measured to do 0.90 times" in world["guest"].reason
    assert world["host"].attempt == 1
    world.finish("host").settle()
    assert shares(world) == {"guest": 1.0}
    assert world["guest"].guest_of is None


def test_a_pair_that_was_measured_to_gain_stays() -> None:
    world = a_pair()
    gaining = a_footprint(light=1.3)
    before = len(world.history)
    world.gauge("host", gaining).gauge("guest", gaining).settle().advance(3600)
    assert world.history[before:] == []


def test_a_host_that_needs_more_memory_than_is_left_has_its_gpu_for_itself_again() -> None:
    world = a_pair()
    world.gauge("host", a_footprint(memory=13)).settle()
    assert shares(world) == {"host": 1.0}
    assert "memory of both" in world["guest"].reason


def test_a_host_whose_guest_has_ended_has_its_gpu_whole_again() -> None:
    world = a_pair().finish("guest").settle()
    assert shares(world) == {"host": 1.0}
    assert world["host"].attempt == 1
    assert "for itself again" in world["host"].reason


def test_a_guest_whose_host_has_ended_has_the_gpu_without_a_restart() -> None:
    world = a_pair().finish("host").settle()
    assert shares(world) == {"guest": 1.0}
    assert (world["guest"].attempt, world["guest"].guest_of) == (1, None)


def test_a_guest_whose_host_has_ended_leaves_the_gpu_to_one_who_came_before_it() -> None:
    world = World("1x1").run(a_job("host", shares=True), a_job("first"))
    world.submit(a_job("guest", shares=True))
    world.gauge("host", a_footprint()).gauge("guest", a_footprint()).settle()
    assert shares(world) == {"host": 0.5, "guest": 0.5}
    world.finish("host").settle()
    assert shares(world) == {"first": 1.0}
    assert world["guest"].phase is Phase.PAUSED


def test_a_request_inside_quota_takes_the_gpu_from_both() -> None:
    world = World("1x1", a_queue("A", quota=0), a_queue("B", quota=1)).run(
        a_job("host", queue="A", shares=True)
    )
    world.submit(a_job("guest", queue="A", shares=True))
    world.gauge("host", a_footprint()).gauge("guest", a_footprint()).settle()
    assert world.held("A") == 1
    world.run(a_job("b", queue="B"))
    assert shares(world) == {"b": 1.0}
    assert set(world.pauses()) == {"host", "guest"}
    world.finish("b").settle()
    assert shares(world) == {"host": 0.5, "guest": 0.5}


def test_a_guest_that_finds_an_idle_gpu_goes_there() -> None:
    world = World("1x2").run(a_job("host", shares=True), a_job("other"))
    world.submit(a_job("guest", shares=True))
    world.gauge("host", a_footprint()).gauge("guest", a_footprint()).settle()
    assert shares(world) == {"host": 0.5, "guest": 0.5, "other": 1.0}
    world.finish("other").settle()
    assert shares(world) == {"host": 0.5, "guest": 0.5}, "not in its first minute"
    world.advance(70)
    assert shares(world) == {"host": 1.0, "guest": 1.0}
    assert "a GPU is idle" in world["guest"].reason or world["guest"].attempt == 2


def test_a_guest_counts_as_half_a_gpu_in_its_queue_and_limits_hold() -> None:
    queues = a_queue("A", quota=1), a_queue("B", quota=0, limit=0.5), a_queue("C", quota=0, limit=0.25)
    world = World("1x1", *queues).run(a_job("host", queue="A", shares=True))
    world.submit(a_job("c", queue="C", shares=True), a_job("b", queue="B", shares=True))
    for name in ("host", "c", "b"):
        world.gauge(name, a_footprint())
    world.settle()
    assert shares(world) == {"host": 0.5, "b": 0.5}
    assert (world.held("A"), world.held("B")) == (0.5, 0.5)


def test_what_is_reserved_for_the_host_s_queue_is_not_given_to_a_guest() -> None:
    world = World("1x1", a_queue("A", quota=1, reserved=1), a_queue("B", quota=0))
    world.run(a_job("host", queue="A", shares=True)).submit(a_job("guest", queue="B", shares=True))
    world.gauge("host", a_footprint()).gauge("guest", a_footprint()).settle()
    assert shares(world) == {"host": 1.0}


def test_one_that_is_never_preempted_neither_hosts_nor_lodges() -> None:
    world = World("1x1").run(a_job("host", shares=True, priority=100))
    world.submit(a_job("guest", shares=True))
    world.gauge("host", a_footprint()).gauge("guest", a_footprint()).settle()
    assert shares(world) == {"host": 1.0}


def test_a_guest_is_put_where_both_gain_most() -> None:
    world = World("1x2").run(a_job("h1", shares=True), a_job("h2", shares=True))
    world.gauge("h1", a_footprint("busy", 0.8)).gauge("h2", a_footprint("calm", 0.2))
    world.submit(a_job("guest", shares=True)).gauge("guest", a_footprint(use=0.5)).settle()
    assert world["guest"].guest_of == "h2"


def test_a_lost_gpu_sends_both_back_into_the_line() -> None:
    world = a_pair("1x1").lose("n1-0").settle()
    assert shares(world) == {}
    assert {world["host"].phase, world["guest"].phase} == {Phase.PENDING}
