"""The messages of the device plugin are protobuf as the kubelet writes and reads it."""

import pytest

from tools.kubernetes import device_plugin as plugin


@pytest.mark.parametrize(
    ("number", "bytes_"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")]
)
def test_numbers_are_varints(number: int, bytes_: bytes) -> None:
    assert plugin.varint(number) == bytes_


def test_a_device_is_its_id_and_its_health() -> None:
    assert plugin.devices({"a": True}) == b"\x0a\x0c" + b"\x0a\x01a" + b"\x12\x07Healthy"
    assert b"Unhealthy" in plugin.devices({"a": False})


@pytest.mark.parametrize("size", [1, 200])
def test_fields_are_read_as_they_were_written(size: int) -> None:
    message = plugin.field(1, "x" * size) + plugin.field(2, b"y")
    assert list(plugin.fields(message)) == [(1, b"x" * size), (2, b"y")]


def test_each_container_is_told_its_gpus() -> None:
    request = plugin.field(1, plugin.field(1, "a") + plugin.field(1, "b")) + plugin.field(
        1, plugin.field(1, "c")
    )
    answers = [answer for _, answer in plugin.fields(plugin.allocated(request))]
    variables = [dict(plugin.fields(variable)) for answer in answers for _, variable in plugin.fields(answer)]
    assert variables == [{1: b"NVIDIA_VISIBLE_DEVICES", 2: b"a,b"}, {1: b"NVIDIA_VISIBLE_DEVICES", 2: b"c"}]
