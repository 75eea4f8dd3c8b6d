"""Virtual GPUs, so that Grus runs anywhere: `2x4x16GB` is two nodes of four GPUs with 16 GB each.

Groups are added with `+`, a type follows a colon: `2x4x16GB+1x2x8GB:RTX3060`. The processes bound to a
virtual GPU are real, and so are their measurements: their memory counts as GPU memory, their CPU time as its
utilization.
"""

import re
from collections.abc import Collection

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import DeviceId, NodeId
from grus.model.nodes import Device, Node
from grus.model.texts.units import parse_bytes
from grus.telemetry.device_provider import Owned, Reading

ISLAND = 4
"""GPUs of a virtual node that are simulated as joined by NVLink."""
_MOST = 100_000
_REFERENCE = 16e9
"""Bytes of a GPU with speed 1."""
_GROUP = re.compile(r"(\d{1,6})x(\d{1,6})x([0-9.]+ ?[A-Za-z]+)(?::([A-Za-z][A-Za-z0-9._-]{0,63}))?", re.ASCII)
_FORM = "write nodes x GPUs x memory, such as 2x4x16GB; join several by +, add a type by a colon"


def parse_pool(text: str) -> tuple[Node, ...]:
    """The nodes that `text` describes; raises BadInput naming the group that is wrong."""
    nodes: list[Node] = []
    mistakes: list[Mistake] = []
    for group in text.split("+"):
        try:
            nodes += _parse_group(group.strip(), len(nodes))
        except ValueError as error:
            mistakes.append(Mistake("virtual", str(error), group.strip()))
    if mistakes:
        raise BadInput(mistakes)
    return tuple(nodes)


def _parse_group(group: str, first: int) -> list[Node]:
    found = _GROUP.fullmatch(group)
    if found is None:
        raise ValueError(_FORM)
    nodes, gpus, size, kind = int(found[1]), int(found[2]), found[3], found[4]
    memory = parse_bytes(size)
    if nodes < 1 or gpus < 1 or memory < 1:
        raise ValueError("needs at least one node, one GPU and one byte of memory")
    if nodes * gpus > _MOST:
        raise ValueError(f"is more than {_MOST} GPUs")
    return [_node(first + i, gpus, memory, kind or f"virtual-{size.replace(' ', '')}") for i in range(nodes)]


def _node(number: int, gpus: int, memory: int, kind: str) -> Node:
    name = NodeId(f"node-{number}")
    devices = tuple(
        Device(
            id=DeviceId(f"{name}/gpu-{i}"),
            type=kind,
            memory=memory,
            island=i // ISLAND,
            speed=memory / _REFERENCE,
        )
        for i in range(gpus)
    )
    return Node(id=name, devices=devices)


class VirtualSource:
    """A pool of virtual GPUs: always healthy, never used by anybody else."""

    virtual = True

    def __init__(self, pool: str) -> None:
        self._nodes = parse_pool(pool)
        self._pool = pool

    def open(self, owned: Owned) -> None:
        """Nothing to begin: there is no driver."""

    def nodes(self, held: Collection[DeviceId]) -> tuple[Node, ...]:  # noqa: ARG002 - nothing depends on it here
        return self._nodes

    def readings(self) -> tuple[Reading, ...]:
        return ()

    def look_again(self) -> None:
        """Nothing to measure."""

    def mechanisms(self) -> dict[str, str]:
        return {
            "gpus": f"virtual ({self._pool})",
            "telemetry": "memory and CPU time of the processes bound to a virtual GPU",
        }

    def close(self) -> None:
        """Nothing to end."""
