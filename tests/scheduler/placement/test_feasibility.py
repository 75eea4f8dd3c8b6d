"""What can never run is told so, with the nearest request or size that could."""

import pytest

from grus.model.resources import Range
from grus.scheduler.placement.feasibility import never_fits, never_fits_at
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World, jobs_of, two_queues


def full() -> World:
    return two_queues().run(*jobs_of("A", 2), *jobs_of("B", 2)).run(a_job("w", queue="A"))


def test_a_request_that_could_run_in_some_state_of_the_pool_fits() -> None:
    world = full()
    for gpus in (1, 4, "2..4", 0.5, "8GB"):
        assert never_fits(world.snapshot, a_job("x", queue="A", gpus=gpus).spec) == ""


@pytest.mark.parametrize(
    ("changes", "nearest"),
    [
        ({"gpus": 5}, "4"),
        ({"gpus": "6..8"}, "4"),
        ({"gpus": 3, "type": "dev"}, "2"),
        ({"gpus": "A100:1"}, ""),
    ],
)
def test_what_never_fits_is_told_the_nearest_request_that_does(
    changes: dict[str, int | str], nearest: str
) -> None:
    sentence = never_fits(full().snapshot, a_job("x", queue="A", **changes).spec)  # type: ignore[arg-type]  # keywords of many types
    assert sentence
    assert nearest in sentence


def test_one_node_is_part_of_what_fits() -> None:
    world = World("2x2")
    assert never_fits(world.snapshot, a_job("x", gpus=3).spec) == ""
    assert "2" in never_fits(world.snapshot, a_job("x", gpus=3, one_node=True).spec)


def test_a_slice_larger_than_any_gpu_never_fits() -> None:
    assert never_fits(World("1x4").snapshot, a_job("x", gpus="20GB").spec)


def test_a_request_for_what_is_reserved_for_others_is_refused_with_their_names() -> None:
    world = World("1x4", a_queue("A", quota=2, reserved=2), a_queue("B", quota=2, reserved=2), a_queue("C"))
    refusal = never_fits(world.snapshot, a_job("x", queue="C").spec)
    assert "reserved for others (2 for A, 2 for B)" in refusal


def test_a_request_of_more_gpus_than_there_are_names_their_number_also_where_some_are_reserved() -> None:
    world = World("1x4:A100+1x2:V100", a_queue("A", quota=2, reserved=2, limit=4), a_queue("B", limit=4))
    for asked, rule in (
        (999, "at least 999 GPUs, and there are 6"),
        ("V100:3", "at least 3 GPUs of type V100, and there are 2"),
        ("8..16", "at least 8 GPUs, and there are 6"),
    ):
        why = never_fits(world.snapshot, a_job("x", queue="B", gpus=asked).spec)
        assert f"asks for more than the pool could ever give it: {rule}" in why
        assert "reserved" not in why


@pytest.mark.parametrize(
    ("changes", "size", "nearest"),
    [
        ({"gpus": "1..8"}, Range(6, 8), "is 4"),
        ({"gpus": "1..8", "sizes": [1, 3, 6]}, Range(6, 6), "is 3"),
        ({"gpus": "1..8", "type": "dev"}, Range(3, 3), "is 2"),
    ],
)
def test_a_size_that_never_fits_is_told_the_nearest_of_the_jobs_own_that_does(
    changes: dict[str, str], size: Range, nearest: str
) -> None:
    sentence = never_fits_at(full().snapshot, a_job("x", queue="A", **changes).spec, size)  # type: ignore[arg-type]  # keywords of many types
    assert f"the nearest size that fits {nearest}" in sentence


def test_a_range_fits_when_its_smallest_size_does() -> None:
    assert never_fits_at(full().snapshot, a_job("x", queue="A", gpus="1..8").spec, Range(4, 8)) == ""
