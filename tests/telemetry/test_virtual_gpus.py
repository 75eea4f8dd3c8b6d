"""Virtual pools as people write them."""

import pytest

from grus.model.errors import BadInput
from grus.telemetry.virtual_gpus import VirtualSource, parse_pool


def test_a_pool_is_nodes_times_gpus_times_memory_with_stable_names() -> None:
    nodes = parse_pool("2x4x16GB")
    assert [node.id for node in nodes] == ["node-0", "node-1"]
    assert [device.id for device in nodes[1].devices] == [f"node-1/gpu-{i}" for i in range(4)]
    assert {device.memory for node in nodes for device in node.devices} == {16_000_000_000}
    assert parse_pool("2x4x16GB") == nodes


def test_groups_are_added_and_may_have_types() -> None:
    nodes = parse_pool("1x8x80GB:A100+2x2x8GB:RTX3060")
    assert [node.id for node in nodes] == ["node-0", "node-1", "node-2"]
    assert [len(node.devices) for node in nodes] == [8, 2, 2]
    assert {device.type for device in nodes[2].devices} == {"RTX3060"}
    assert nodes[0].devices[0].speed > nodes[1].devices[0].speed


def test_islands_have_four_gpus() -> None:
    (node,) = parse_pool("1x6x8GB")
    assert [device.island for device in node.devices] == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    "text",
    ["", "4", "2x4", "0x4x16GB", "2x0x16GB", "2x4x0GB", "2x4x16", "2x4x16GB+", "-1x4x16GB", "2x4x16GB:"],
)
def test_a_pool_that_is_none_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="virtual"):
        parse_pool(text)


def test_every_bad_group_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        parse_pool("a+2x4x16GB+b")
    assert [mistake.value for mistake in caught.value.mistakes] == ["a", "b"]


def test_a_pool_of_a_hundred_thousand_gpus_is_the_most() -> None:
    with pytest.raises(BadInput):
        parse_pool("999999x999999x1GB")


def test_a_virtual_source_is_always_healthy() -> None:
    source = VirtualSource("1x2x16GB")
    assert all(device.usable for node in source.nodes(()) for device in node.devices)
    assert "virtual" in source.mechanisms()["gpus"]
