"""Health: unhealthy devices take no work, jobs on them wait again, cordoned nodes empty by themselves."""

import pytest

from grus.model.jobs import Phase
from grus.model.nodes import Health
from grus.scheduler.decisions import Requeue
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of


@pytest.mark.parametrize("health", [Health.DIRTY, Health.QUARANTINED])
def test_unhealthy_devices_take_no_work(health: Health) -> None:
    world = World("1x2").change_device("n1-0", health=health)
    world.run(a_job("x"), a_job("y"))
    assert world.devices_of("x") == {"n1-1"}
    assert world.running() == {"x"}
    world.change_device("n1-0", health=Health.HEALTHY).settle()
    assert world.running() == {"x", "y"}


@pytest.mark.parametrize("health", [Health.DIRTY, Health.QUARANTINED])
def test_a_job_on_a_lost_device_goes_on_elsewhere_and_is_not_charged(health: Health) -> None:
    world = World("2x1").run(a_job("x"))
    lost = world.devices_of("x").pop()
    world.change_device(lost, health=health).settle()
    assert world["x"].phase is Phase.RUNNING
    assert world.devices_of("x") == {"n1-0", "n2-0"} - {lost}
    assert world["x"].attempt == 2
    assert world["x"].failures == 0


def test_a_gang_that_loses_one_device_is_requeued_whole() -> None:
    world = World("1x4").run(a_job("gang", gpus=4)).lose("n1-2").settle()
    assert world["gang"].phase is Phase.PENDING
    assert world["gang"].seats == ()
    assert [action.job for _, action in world.history if isinstance(action, Requeue)] == ["gang"]


def test_even_never_preempted_work_is_requeued_from_a_lost_device() -> None:
    world = World("1x2").run(a_job("d", type="dev"))
    world.lose(*world.devices_of("d")).settle()
    assert "d" in world.running()
    assert world["d"].attempt == 2


def test_a_requeued_job_keeps_its_place() -> None:
    world = World("1x2").run(a_job("x"), a_job("y"), a_job("z"))
    world.lose(*world.devices_of("x")).settle()
    world.finish("y").settle()
    assert world.running() == {"x"}


def test_a_cordoned_node_takes_no_new_work_and_what_runs_there_goes_on() -> None:
    world = World("2x1").run(a_job("x"))
    place = world.nodes_of("x").pop()
    world.cordon(place).settle()
    assert world.running() == {"x"}
    world.run(a_job("y"), a_job("z"))
    assert world.running() == {"x", "y"}
    world.finish("x").settle()
    assert world.running() == {"y"}
    world.cordon(place, cordoned=False).settle()
    assert world.running() == {"y", "z"}


def test_a_vanished_node_requeues_its_jobs() -> None:
    world = World("2x1").run(a_job("x"))
    place = world.nodes_of("x").pop()
    world.set_nodes(node for node in world.nodes if node.id != place).settle()
    assert world["x"].attempt == 2
    assert world.nodes_of("x") == {"n1", "n2"} - {place}


def test_after_a_loss_the_borrower_yields_to_the_owner() -> None:
    """Four GPUs, quotas 2 and 2, A borrows one; two are lost: each keeps one, its effective quota."""
    world = World("1x4", a_queue("A", quota=2), a_queue("B", quota=2))
    world.run(*jobs_of("A", 3), *jobs_of("B", 1)).advance(61)
    b_device = world.devices_of("b1").pop()
    a_devices = sorted(world.devices_of("a1") | world.devices_of("a2") | world.devices_of("a3"))
    world.lose(b_device, a_devices[0]).settle()
    assert (world.held("A"), world.held("B")) == (1, 1)


def test_a_loss_inside_a_gangs_pool_starts_the_smaller_jobs_instead() -> None:
    """The gang cannot fit any more; what waits behind it and fits does not wait for ever."""
    world = World("1x4").run(a_job("gang", gpus=4)).lose("n1-0").settle()
    world.run(a_job("x")).advance(3600)
    assert "x" in world.running()
