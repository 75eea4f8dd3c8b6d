"""Devices as people write them."""

import pytest

from grus.estimation.gpus import find
from grus.model.errors import BadInput
from grus.partition.parse_devices import at_most, gpus, relative_speed, topology

SMALL = find("RTX3060")


def test_a_type_a_number_of_them_and_what_is_left_of_one_are_understood() -> None:
    whole, again, part = gpus("2xRTX3060, RTX3060:8GB")
    assert whole == again
    assert (whole.kind, whole.free) == (SMALL, SMALL.memory)
    assert part.free == 8_000_000_000


@pytest.mark.parametrize("text", ["RTX3060", "RTX3060:8GB", "virtual-2GB", "virtual-600MB"])
def test_room_is_the_most_that_surely_stays_within_what_is_free(text: str) -> None:
    (one,) = gpus(text)
    assert at_most(one.room, one.kind) <= one.free < at_most(one.room + 8, one.kind)


def test_a_gpu_too_small_for_a_process_has_no_room() -> None:
    assert gpus("virtual-100MB")[0].room == 0


def test_nobody_has_more_than_the_whole_gpu() -> None:
    assert gpus("RTX3060:80GB")[0].free == SMALL.memory


def test_every_mistake_is_told() -> None:
    with pytest.raises(BadInput) as caught:
        gpus("RTX3061, 0xRTX3060, RTX3060:8, ")
    told = [str(mistake) for mistake in caught.value.mistakes]
    assert len(told) == 4
    assert "did you mean RTX3060?" in told[0]
    assert "1 to 64" in told[1]
    assert "RTX3060:8GB if only that is free" in told[2]
    assert "found nothing" in told[3]


def test_devices_differ_in_room_and_speed_and_links_are_those_of_the_slower_end() -> None:
    made = topology(gpus("RTX3060,RTX3090,RTX3090"))
    small, large, _ = made.devices
    assert small.speed == 1.0
    assert large.speed == pytest.approx(relative_speed(find("RTX3090"), SMALL))
    assert large.speed > 2
    assert small.memory == gpus("RTX3060")[0].room
    assert made.links[0][1] == made.links[1][0]
    assert made.links[1][2].seconds_per_byte < made.links[0][1].seconds_per_byte  # NVLink


def test_a_bandwidth_that_is_known_holds_between_all() -> None:
    made = topology(gpus("RTX3060,H100"), 1e9)
    assert made.links[0][1].seconds(10**9) == pytest.approx(1.0, rel=1e-3)
