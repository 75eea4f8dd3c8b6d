"""Small builders of pools, queues and jobs, in the words of the job file. Values only; nothing here decides.

a_pool("2x4")                      two nodes of four GPUs
a_pool("1x8:A100+2x2:RTX3060")     mixed types; memory, speed and NVLink islands by keyword
a_queue("A", quota=2, reserved=1)
a_job("a1", queue="A", gpus="2..4")
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.jobs import (
    PRIORITIES,
    USUAL_PRIORITY,
    Affinity,
    Checkpoint,
    Job,
    JobType,
    Launch,
    Resizing,
    Spec,
)
from grus.model.nodes import Device, Health, Node
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU, Range, Replica, Request, Role

GB = 1_000_000_000

KINDS: dict[str, tuple[int, float]] = {
    "GPU": (16 * GB, 1.0),
    "RTX3060": (12 * GB, 0.5),
    "T4": (16 * GB, 0.4),
    "V100": (32 * GB, 1.0),
    "A100": (80 * GB, 2.0),
    "H100": (80 * GB, 4.0),
}
"""Memory and relative speed of the types that tests use."""

Gpus = int | float | str


def a_pool(
    text: str, *, island: int = 0, labels: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[Node, ...]:
    """Nodes n1, n2, … with GPUs n1-0, n1-1, …; `island`: GPUs per NVLink island (0: the whole node)."""
    nodes: list[Node] = []
    for part in text.split("+"):
        shape, _, kind = part.partition(":")
        count, per_node = (int(number) for number in shape.split("x"))
        nodes += [_a_node(f"n{len(nodes) + 1 + i}", per_node, kind or "GPU", island) for i in range(count)]
    given = labels or {}
    return tuple(replace(node, labels=tuple(sorted(given.get(node.id, {}).items()))) for node in nodes)


def _a_node(name: str, gpus: int, kind: str, island: int) -> Node:
    memory, speed = KINDS[kind]
    devices = tuple(
        Device(DeviceId(f"{name}-{i}"), kind, memory, island=i // island if island else 0, speed=speed)
        for i in range(gpus)
    )
    return Node(NodeId(name), devices)


def with_device(nodes: Sequence[Node], device: str, **changes: object) -> tuple[Node, ...]:
    """The same pool with one GPU changed, e.g. `health=Health.DIRTY`."""
    return tuple(
        replace(node, devices=tuple(replace(d, **changes) if d.id == device else d for d in node.devices))  # type: ignore[arg-type]  # keywords of many types
        for node in nodes
    )


def lose(nodes: Sequence[Node], *devices: str) -> tuple[Node, ...]:
    """The same pool with these GPUs quarantined."""
    pool = tuple(nodes)
    for device in devices:
        pool = with_device(pool, device, health=Health.QUARANTINED)
    return pool


def a_queue(
    name: str,
    *,
    quota: float | Mapping[str, float] = 0,
    reserved: float = 0,
    weight: float = 1.0,
    limit: float | None = None,
    parent: str | None = None,
    nodes: Sequence[str] = (),
    oversubscribe: bool = False,
) -> Queue:
    """A queue; amounts in GPUs."""
    return Queue(
        name=QueueName(name),
        parent=QueueName(parent) if parent is not None else None,
        quota=Quota.of(quota),
        reserved=round(reserved * GPU),
        weight=weight,
        limit=None if limit is None else round(limit * GPU),
        nodes=tuple(nodes),
        oversubscribe=oversubscribe,
    )


def a_role(name: str, replicas: int | str, gpus: Gpus, **extra: object) -> Role:
    """A role: so many replicas (a number or "2..4"), each taking this (1 | 0.5 | "12GB" | 0)."""
    return Role(name, a_range(replicas), replace(a_replica(gpus), **extra))  # type: ignore[arg-type]  # keywords of many types


def a_range(text: int | str) -> Range:
    low, _, high = str(text).partition("..")
    return Range(int(low), int(high or low))


def a_replica(gpus: Gpus, types: Sequence[str] = ()) -> Replica:
    """One replica that takes whole GPUs, a fraction of one, or a slice of one by memory."""
    kinds = tuple(types)
    if isinstance(gpus, str) and gpus.endswith("GB"):
        return Replica(gpus=0, gpu_memory=int(gpus[:-2]) * GB, types=kinds)
    if isinstance(gpus, float) and not gpus.is_integer():
        return Replica(gpus=0, share=round(gpus * GPU), types=kinds)
    return Replica(gpus=int(gpus), types=kinds)


def a_request(
    gpus: Gpus = 1, *, types: Sequence[str] = (), sizes: Sequence[int] = (), one_node: bool = False
) -> Request:
    """What `gpu:` of a job file means: 4 and 2..4 are replicas of one GPU each, a slice is one replica."""
    kinds = tuple(types)
    if isinstance(gpus, str) and ":" in gpus:
        kind, _, gpus = gpus.partition(":")
        kinds = (kind,)
    slice_of_one = (isinstance(gpus, str) and gpus.endswith("GB")) or (isinstance(gpus, float) and gpus < 1)
    if slice_of_one:
        role = Role("worker", Range(1, 1), a_replica(gpus, kinds))
    else:
        role = Role("worker", a_range(str(gpus)), Replica(gpus=1, types=kinds))
    return Request((role,), sizes=tuple(sizes), one_node=one_node)


def a_job(
    name: str,
    *,
    queue: str = "default",
    gpus: Gpus = 1,
    types: Sequence[str] = (),
    sizes: Sequence[int] = (),
    one_node: bool = False,
    mixed: bool = False,
    shares: bool = False,
    resize: Resizing = Resizing.LIVE,
    roles: Sequence[Role] = (),
    type: str = "train",
    priority: int | None = None,
    user: str = "ann",
    submitted_at: float = 0.0,
    max_runtime: float | None = None,
    retries: int = 0,
    after: Sequence[str] = (),
    node_selector: Mapping[str, str] | None = None,
    prefer: Mapping[str, str] | None = None,
    avoid_nodes: Sequence[str] = (),
) -> Job:
    """A pending job whose id is its name."""
    request = (
        Request(tuple(roles), sizes=tuple(sizes), one_node=one_node)
        if roles
        else a_request(gpus, types=types, sizes=sizes, one_node=one_node)
    )
    kind = JobType(type)
    spec = Spec(
        name=name,
        queue=QueueName(queue),
        run=("true",),
        request=replace(request, shares=shares, mixed=mixed),
        type=kind,
        launch=Launch.ONCE if one_node else Launch.PER_GPU,
        resize=resize,
        priority=PRIORITIES[USUAL_PRIORITY[kind]] if priority is None else priority,
        checkpoint=Checkpoint(path="ckpt", grace=2.0),
        max_runtime=max_runtime,
        retries=retries,
        after=tuple(JobId(other) for other in after),
        node_selector=tuple(sorted((node_selector or {}).items())),
        affinity=Affinity(prefer=tuple(sorted((prefer or {}).items())), avoid_nodes=tuple(avoid_nodes)),
    )
    return Job(id=JobId(name), spec=spec, user=UserName(user), submitted_at=submitted_at)
