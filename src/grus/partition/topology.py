"""The devices that a model may be split over: memory that is free on each, speed, and the links between."""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.model.errors import BadInput, Mistake


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    memory: int
    """Bytes that may be used; of a shared GPU only what is left."""
    speed: float = 1.0
    """Operators take `seconds / speed`."""


@dataclass(frozen=True, slots=True)
class Link:
    """A transfer of b bytes takes `latency + b * seconds_per_byte`."""

    seconds_per_byte: float
    latency: float = 0.0

    def seconds(self, size: int) -> float:
        return self.latency + size * self.seconds_per_byte


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices, and the link from each to each: `links[source][target]` (the diagonal is never used)."""

    devices: tuple[Device, ...]
    links: tuple[tuple[Link, ...], ...]

    def __post_init__(self) -> None:
        mistakes = [] if self.devices else [Mistake("devices", "at least one device is needed")]
        for device in self.devices:
            if not 0 < device.speed < float("inf"):
                mistakes.append(Mistake(device.name, "the speed must be above 0", str(device.speed)))
            if device.memory < 0:
                mistakes.append(Mistake(device.name, "memory must not be negative", str(device.memory)))
        count = len(self.devices)
        if len(self.links) != count or any(len(row) != count for row in self.links):
            mistakes.append(Mistake("links", f"must be a matrix of {count} by {count}"))
        if any(min(one.seconds_per_byte, one.latency) < 0 for row in self.links for one in row):
            mistakes.append(Mistake("links", "times must not be negative"))
        if mistakes:
            raise BadInput(mistakes)

    def raised(self, memory: int) -> "Topology":
        """The same devices, each with at least so many bytes."""
        devices = (Device(one.name, max(one.memory, memory), one.speed) for one in self.devices)
        return Topology(tuple(devices), self.links)

    def scaled(self, share: float) -> "Topology":
        """The same devices, each with this share of its memory."""
        devices = (Device(one.name, int(one.memory * share), one.speed) for one in self.devices)
        return Topology(tuple(devices), self.links)

    @property
    def largest(self) -> int:
        return max(one.memory for one in self.devices)

    @property
    def fastest(self) -> float:
        return max(one.speed for one in self.devices)

    @property
    def pairs(self) -> list[Link]:
        """The links between two different devices."""
        return [link for one, row in enumerate(self.links) for two, link in enumerate(row) if one != two]

    @property
    def usual(self) -> Link:
        """The mean of all links; free when there is one device only."""
        pairs = self.pairs
        if not pairs:
            return Link(0.0)
        slope = sum(link.seconds_per_byte for link in pairs) / len(pairs)
        return Link(slope, sum(link.latency for link in pairs) / len(pairs))


def alike(memories: Sequence[int], link: Link) -> Topology:
    """Devices of speed 1 with these memories, the same link between any two."""
    devices = tuple(Device(f"gpu-{number}", memory) for number, memory in enumerate(memories))
    return Topology(devices, tuple(tuple(link for _ in devices) for _ in devices))
