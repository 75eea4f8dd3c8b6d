"""Slices of a GPU: fractions and memory, packed against fragmentation, never beyond the device."""

import pytest

from tests.scheduler.builders import a_job, a_queue, a_role
from tests.scheduler.world import World


def test_two_halves_share_one_gpu_and_leave_the_other_whole() -> None:
    world = World("1x2").run(a_job("x", gpus=0.5), a_job("y", gpus=0.5), a_job("whole"))
    assert world.devices_of("x") == world.devices_of("y")
    assert world.running() == {"x", "y", "whole"}


@pytest.mark.parametrize(
    ("gpus", "number"), [(0.5, 2), (0.4, 2), (0.3, 3), (0.25, 4), ("6GB", 2), ("5GB", 3)]
)
def test_a_gpu_takes_as_many_slices_as_fit(gpus: float | str, number: int) -> None:
    world = World("1x1").run(*[a_job(f"s{i}", gpus=gpus) for i in range(6)])
    assert len(world.running()) == number


def test_what_two_gpus_have_left_together_is_no_place_for_a_slice() -> None:
    world = World("1x2").run(a_job("x", gpus=0.7), a_job("y", gpus=0.7), a_job("z", gpus=0.5))
    assert world.running() == {"x", "y"}


def test_a_slice_goes_where_it_leaves_the_least_over() -> None:
    """0.5 and 0.7 are held; a 0.3 fills the second instead of spoiling the first."""
    world = World("1x2").run(a_job("x", gpus=0.5), a_job("y", gpus=0.7), a_job("z", gpus=0.3))
    assert world.devices_of("z") == world.devices_of("y")
    world.run(a_job("w", gpus=0.5))
    assert "w" in world.running()


def test_a_memory_slice_takes_its_share_of_the_device_it_is_on() -> None:
    world = World("1x1:A100").run(a_job("x", gpus="20GB"))
    assert world.size("x") == 0.25


def test_on_a_smaller_gpu_a_memory_slice_takes_more_of_it() -> None:
    """Two of them fit ten times into the large one, and once into the small one."""
    world = World("1x1:A100+1x1:RTX3060").run(a_job("whole", types=["A100"]))
    world.run(a_job("x", gpus="8GB"), a_job("y", gpus="8GB"))
    assert world.running() == {"whole", "x"}


def test_a_memory_slice_goes_only_where_it_fits() -> None:
    world = World("1x1:RTX3060+1x1:A100").run(a_job("x", gpus="40GB"), a_job("y", gpus="40GB"))
    assert world.devices_of("x") == world.devices_of("y") == {"n2-0"}
    world.run(a_job("z", gpus="40GB"))
    assert world.waiting() == {"z"}


def test_fractions_and_memory_slices_share_a_gpu() -> None:
    world = World("1x1").run(a_job("x", gpus=0.5), a_job("y", gpus="8GB"), a_job("z", gpus="1GB"))
    assert world.running() == {"x", "y"}


def test_a_whole_gpu_is_not_given_while_a_slice_of_it_is_held() -> None:
    world = World("1x1").run(a_job("x", gpus=0.1), a_job("whole"))
    assert world.running() == {"x"}


def test_a_gang_of_slices_is_all_or_nothing() -> None:
    world = World("1x1").run(a_job("x", gpus=0.5), a_job("gang", roles=[a_role("worker", 2, 0.4)]))
    assert world["gang"].seats == ()
    world.finish("x").settle()
    assert world.size("gang") == pytest.approx(0.8)


def test_a_slice_inside_quota_takes_back_a_borrowed_gpu() -> None:
    world = World("1x2", a_queue("A", quota=1), a_queue("B", quota=1)).run(a_job("b", queue="B", gpus=2))
    world.run(a_job("a", queue="A", gpus=0.5))
    assert world.running() == {"a"}


def test_a_slice_over_quota_is_enough_of_a_victim() -> None:
    """B borrowed a half beyond its quota; that half is what A's half needs."""
    world = World("1x2", a_queue("A", quota=1), a_queue("B", quota=1))
    world.run(a_job("b1", queue="B"), a_job("b2", queue="B", gpus=0.5), a_job("a1", queue="A", gpus=0.5))
    world.run(a_job("a2", queue="A", gpus=0.5))
    assert {"a1", "a2", "b1"} <= world.running()
    assert world.pauses() == ["b2"]
