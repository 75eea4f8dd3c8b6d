"""GPU health from readings: healthy, dirty, quarantined, or used by a process outside Grus. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grus.model.identifiers import DeviceId
from grus.model.nodes import Device, Health
from grus.telemetry.device_provider import Reading

CLEAN = 512 << 20
"""Bytes that an unused GPU may show as taken: contexts of the driver, and of persistence daemons."""


def judge(
    known: Sequence[Device],
    readings: Mapping[DeviceId, Reading],
    *,
    outside: Mapping[DeviceId, str],
    held: Collection[DeviceId],
    answering: bool,
) -> tuple[Device, ...]:
    """The known GPUs as they are now; `outside` says who uses which, `answering` whether the driver does."""
    return tuple(
        replace(
            device, health=_health(device, readings, outside, held, answering), outside=_user(device, outside)
        )
        for device in known
    )


def _user(device: Device, outside: Mapping[DeviceId, str]) -> str:
    return outside.get(device.id, "")


def _health(
    device: Device,
    readings: Mapping[DeviceId, Reading],
    outside: Mapping[DeviceId, str],
    held: Collection[DeviceId],
    answering: bool,
) -> Health:
    reading = readings.get(device.id)
    if not answering:
        # Silence is no evidence against a running job, but nothing new may start on such a GPU.
        return Health.HEALTHY if device.id in held else Health.QUARANTINED
    if reading is None or reading.fault:
        return Health.QUARANTINED
    if device.id not in held and device.id not in outside and reading.used > CLEAN:
        return Health.DIRTY
    return Health.HEALTHY


def islands(readings: Sequence[Reading]) -> dict[DeviceId, int]:
    """A number for each set of GPUs that reach each other by NVLink, in the order of the readings."""
    links = {reading.id: set(reading.links) for reading in readings}
    for reading in readings:
        for other in reading.links:
            links.setdefault(other, set()).add(reading.id)
    numbers: dict[DeviceId, int] = {}
    for reading in readings:
        if reading.id not in numbers:
            number = max(numbers.values(), default=-1) + 1
            waiting = [reading.id]
            while waiting:
                one = waiting.pop()
                if one not in numbers:
                    numbers[one] = number
                    waiting += links.get(one, ())
    return numbers
