"""Pools and queues for simulations, from what people write: `2x8xA100`, or quotas by what was used."""

import re
from collections.abc import Iterable, Sequence

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import DeviceId, NodeId, QueueName
from grus.model.nodes import Device, Node
from grus.model.queues import Queue, Quota
from grus.model.texts.units import parse_bytes
from grus.simulator.workload.job_work import TraceJob

GB = 1_000_000_000
KNOWN: dict[str, tuple[int, float]] = {
    "T4": (16 * GB, 0.4),
    "P100": (16 * GB, 0.5),
    "RTX3060": (12 * GB, 0.5),
    "RTX3090": (24 * GB, 0.9),
    "RTX4090": (24 * GB, 1.6),
    "V100": (32 * GB, 1.0),
    "L40S": (48 * GB, 1.7),
    "A100": (80 * GB, 2.0),
    "H100": (80 * GB, 4.0),
    "H200": (141 * GB, 4.5),
}
"""Memory, and speed relative to a V100 (about): good for saying which type is preferred, not for more."""
USUAL = (16 * GB, 1.0)
"""Memory and speed of an unknown type."""
ISLAND = 8
"""GPUs of a node that reach each other by NVLink."""
MOST = 100_000
_GROUP = re.compile(r"(\d{1,6})x(\d{1,6})x([A-Za-z][A-Za-z0-9._-]{0,63})(?::([0-9.]+ ?[A-Za-z]+))?", re.ASCII)
_FORM = "write nodes x GPUs x type, such as 2x8xA100; join several by +, add a memory by a colon (A100:40GB)"


def parse_nodes(text: str, *, field: str = "nodes", first: int = 0) -> tuple[Node, ...]:
    """The nodes that `2x8xA100+4x2xRTX3060:12GB` describes, named from node-`first` on."""
    nodes: list[Node] = []
    mistakes: list[Mistake] = []
    for group in text.split("+"):
        try:
            nodes += _parse_group(group.strip(), first + len(nodes))
        except ValueError as error:
            mistakes.append(Mistake(field, str(error), group.strip() or "nothing"))
    if not mistakes and sum(len(node.devices) for node in nodes) > MOST:
        mistakes.append(Mistake(field, f"is more than {MOST} GPUs", text))
    if mistakes:
        raise BadInput(mistakes)
    return tuple(nodes)


def _parse_group(group: str, first: int) -> list[Node]:
    found = _GROUP.fullmatch(group)
    if found is None:
        raise ValueError(_FORM)
    count, gpus, kind = int(found[1]), int(found[2]), found[3]
    memory, speed = KNOWN.get(kind, USUAL)
    if found[4]:
        memory = parse_bytes(found[4])
    if count < 1 or gpus < 1 or memory < 1:
        raise ValueError("needs at least one node, one GPU and one byte of memory")
    if count * gpus > MOST:
        raise ValueError(f"is more than {MOST} GPUs")
    return [_node(first + number, gpus, kind, memory, speed) for number in range(count)]


def _node(number: int, gpus: int, kind: str, memory: int, speed: float) -> Node:
    name = NodeId(f"node-{number}")
    devices = tuple(
        Device(id=DeviceId(f"{name}/gpu-{i}"), type=kind, memory=memory, island=i // ISLAND, speed=speed)
        for i in range(gpus)
    )
    return Node(id=name, devices=devices)


def count_gpus(nodes: Iterable[Node]) -> int:
    return sum(len(node.devices) for node in nodes)


def largest_node(nodes: Iterable[Node]) -> int:
    """GPUs of the node that has most."""
    return max((len(node.devices) for node in nodes), default=0)


def quotas_by_use(works: Sequence[TraceJob], nodes: Iterable[Node], *, least: int = 0) -> list[Queue]:
    """A queue for each that the trace names, with a quota by its share of the trace's GPU-time.

    Whole GPUs, by largest remainder; `least` is what each gets at any rate, if there are enough.
    """
    used: dict[QueueName, float] = {}
    for work in works:
        used[work.queue] = used.get(work.queue, 0.0) + work.gpu_seconds
    quotas = shares(used, count_gpus(nodes), least)
    return [Queue(name=name, quota=Quota.of(quotas[name])) for name in sorted(used)]


def shares(used: dict[QueueName, float], gpus: int, least: int = 0) -> dict[QueueName, int]:
    """Whole numbers in proportion to `used` that sum to `gpus`, none below `least` where that is possible."""
    floor = min(least, gpus // max(1, len(used)))
    rest, total = gpus - floor * len(used), sum(used.values()) or 1.0
    exact = {name: rest * amount / total for name, amount in used.items()}
    given = {name: int(share) for name, share in exact.items()}
    order = sorted(used, key=lambda name: (given[name] - exact[name], name))
    for name in order[: rest - sum(given.values())]:
        given[name] += 1
    return {name: floor + given[name] for name in used}
