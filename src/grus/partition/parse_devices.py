"""The devices to split over, from what people write: `RTX3060,RTX3060:8GB`. Pure; knows no torch."""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from grus.estimation.calibration import usual, usual_of_a_process
from grus.estimation.gpus import GpuKind, find
from grus.estimation.roofline import BANDWIDTH_REACHED
from grus.model.errors import BadInput, Mistake
from grus.model.texts.units import parse_bytes
from grus.partition.topology import Device, Link, Topology

FORM = (
    "write GPU types joined by commas, such as RTX3060,RTX3060 or 2xRTX3060; RTX3060:8GB if only that is free"
)
MOST = 64
"""Maximum number of devices that a model is split over; more is treated as a typing error."""
PCIE = 32e9
"""Bytes a second between GPUs of different types: PCIe 4.0 with 16 lanes, by its specification."""
LATENCY = 1e-4
"""Seconds that a copy between two GPUs takes however small it is: as Baechi measured it with PyTorch."""
SPLITTING = 120_000_000
"""Bytes that a process takes more when it holds a part of a model: it exports and places operators
(measured: 52 MB resident, 150 MB reserved). On a virtual GPU they are the GPU's."""
_ONE = re.compile(r"(?:(\d{1,4}) ?x ?)?([^:]+?)(?: ?: ?([0-9.]+ ?[A-Za-z]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that may be used, or what is left of one."""

    kind: GpuKind
    free: int
    """Bytes that no other process uses."""
    share: float = 1.0
    """Part of its speed."""

    @property
    def room(self) -> int:
        """The most bytes of tensors of a part of a model that surely stay within what is free."""
        return max(0, bisect_right(range(self.free + 1), self.free, key=self._at_most) - 1)

    def _at_most(self, tensors: int) -> int:
        return at_most(tensors, self.kind)


def at_most(tensors: int, kind: GpuKind) -> int:
    """Bytes of a GPU that a worker with so many of tensors stays within, context and losses included."""
    if kind.virtual:
        return tensors + usual_of_a_process(tensors).upper + kind.context + SPLITTING
    return tensors + usual(tensors).upper + kind.context


def gpus(text: str, field: str = "gpus") -> tuple[Gpu, ...]:
    """Return the GPUs of a text; raises BadInput with all errors."""
    found: list[Gpu] = []
    mistakes: list[Mistake] = []
    for part in text.split(","):
        try:
            found += _several(part.strip(), field)
        except BadInput as error:
            mistakes += error.mistakes
        except ValueError as error:
            mistakes.append(Mistake(field, str(error), part.strip() or "nothing"))
    if not mistakes and len(found) > MOST:
        mistakes.append(Mistake(field, f"are more than {MOST}", str(len(found))))
    if mistakes:
        raise BadInput(mistakes)
    return tuple(found)


def _several(part: str, field: str) -> list[Gpu]:
    read = _ONE.fullmatch(part)
    if read is None:
        raise ValueError(FORM)
    kind = find(read[2], field)
    free = min(kind.memory, parse_bytes(read[3])) if read[3] else kind.memory
    count = int(read[1]) if read[1] else 1
    if not 1 <= count <= MOST:
        raise ValueError(f"must be 1 to {MOST} GPUs; {FORM}")
    return [Gpu(kind, free)] * count


def topology(used: Sequence[Gpu], bandwidth: float = 0.0) -> Topology:
    """Speeds are relative to the first. `bandwidth` in bytes a second between any two, if it is known."""
    devices = tuple(
        Device(
            f"gpu-{number} ({one.kind.name})", one.room, one.share * relative_speed(one.kind, used[0].kind)
        )
        for number, one in enumerate(used)
    )
    return Topology(
        devices, tuple(tuple(_link(one.kind, two.kind, bandwidth) for two in used) for one in used)
    )


def relative_speed(kind: GpuKind, other: GpuKind) -> float:
    """Return the relative speed from both peak values; about half of a step computes and half moves data."""
    return math.sqrt((kind.flops / other.flops) * (kind.bandwidth / other.bandwidth))


def _link(one: GpuKind, two: GpuKind, bandwidth: float) -> Link:
    best = min(one.link, two.link) if one == two else min(one.link, two.link, PCIE)
    return Link(1.0 / (bandwidth or BANDWIDTH_REACHED * best), LATENCY)
