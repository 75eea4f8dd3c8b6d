"""Wire models of queues, nodes and the state of the server, in and out."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from grus.api.inputs.job_schema import IdleIn
from grus.api.inputs.job_spec import idle_of
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Strict, ValidFields, failure
from grus.api.profile_wire import TagOut
from grus.api.wire_types.base import Convert, Derived, GpuCount, Out, Source, Timestamp
from grus.api.wire_types.job import HolderOut, holders_out
from grus.model.activity_labels import Tag
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.jobs import Idle
from grus.model.nodes import Device, Node
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU, Range
from grus.model.texts.units import (
    MOST_GPUS,
    gpu_number,
    parse_range,
    parse_seconds,
    render_percent,
    render_seconds,
)

if TYPE_CHECKING:
    from grus.scheduler.queues.queue_usage_tree import QueueState

_GPUS = f.number(0, 10 * MOST_GPUS)
_USERS = f.items(f.name, most=10_000)


def _quota(value: Any) -> Any:
    """A number of GPUs, or a number by type."""
    if not isinstance(value, Mapping):
        try:
            return _GPUS(value)
        except ValueError as error:
            raise ValueError(
                f"{error}, or a mapping from GPU type to number, such as {{A100: 4, any: 8}}"
            ) from None
    broken = []
    for kind, number in value.items():
        try:
            f.text(64)(kind)
            _GPUS(number)
        except ValueError as error:
            broken.append(BrokenRule((str(kind),), str(error), number))
    if broken:
        raise failure(broken)
    return dict(value)


class QueueIn(Strict):
    """The rules of a queue, in GPUs."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("deserved", "guaranteed", "gpus", "share"), "quota"),
        **dict.fromkeys(("max", "maximum", "cap"), "limit"),
        **dict.fromkeys(("users", "people"), "members"),
        "fixed": "reserved",
    }

    parent: f.MaybeName = None
    quota: Annotated[
        float | dict[str, float],
        f.judged(_quota),
    ] = 0
    reserved: Annotated[float, f.judged(_GPUS)] = 0
    weight: Annotated[float, f.judged(f.number(0.001, 1_000_000))] = 1
    limit: Annotated[float | None, f.judged(f.optional(_GPUS))] = None
    nodes: Annotated[
        tuple[str, ...],
        f.judged(f.items(f.text(f.LONGEST_LABEL), most=10_000)),
    ] = ()
    members: Annotated[tuple[str, ...], f.judged(_USERS)] = ()
    max_priority: Annotated[int, f.judged(f.whole(0, f.MOST_PRIORITY))] = f.MOST_PRIORITY
    max_runtime: f.MaybeSeconds = None
    dev_limit: f.MaybeSeconds = None
    """Maximum duration of a development session."""
    idle: IdleIn | None = None
    """Action on its jobs whose GPUs are idle, besides their own `idle` setting."""
    oversubscribe: f.Flag = False

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        broken: list[BrokenRule] = []
        if not sound("quota"):
            return broken
        quota = Quota.of(self.quota).total
        if sound("reserved") and round(self.reserved * GPU) > quota:
            broken.append(
                BrokenRule(("reserved",), f"must be at most the quota, {gpu_number(quota)}", self.reserved)
            )
        if sound("limit") and self.limit is not None and round(self.limit * GPU) < quota:
            broken.append(
                BrokenRule(("limit",), f"must be at least the quota, {gpu_number(quota)}", self.limit)
            )
        return broken


def to_queue(name: str, queue: QueueIn) -> Queue:
    """Return the queue for the core. Raises BadInput if the name is invalid, or the queue is its own
    parent.
    """
    valid = QueueName(f.object_name(name))
    if queue.parent == name:
        raise BadInput([Mistake("parent", "makes a circle; a queue cannot be above itself", name)])
    return Queue(
        name=valid,
        parent=None if queue.parent is None else QueueName(queue.parent),
        quota=Quota.of(queue.quota) if "quota" in queue.model_fields_set else Quota(),
        reserved=round(queue.reserved * GPU),
        weight=float(queue.weight),
        limit=None if queue.limit is None else round(queue.limit * GPU),
        nodes=tuple(queue.nodes),
        members=tuple(UserName(member) for member in queue.members),
        max_priority=queue.max_priority,
        max_runtime=None if queue.max_runtime is None else parse_seconds(queue.max_runtime),
        dev_limit=None if queue.dev_limit is None else parse_seconds(queue.dev_limit),
        idle=idle_of(queue.idle),
        oversubscribe=queue.oversubscribe,
    )


def _idle(idle: Idle) -> dict[str, str]:
    """Return an idle policy as it could be written."""
    return {
        "below": render_percent(idle.below),
        "for": render_seconds(idle.seconds),
        "action": idle.action,
    }


def _quota_by_type(quota: Quota) -> dict[str, float | int]:
    return {kind: gpu_number(amount) for kind, amount in quota.by_type} if quota.typed else {}


class QueueOut(Out):
    """Queue: its rules and its state. Numbers of GPUs."""

    name: str
    parent: str | None = None
    quota: Annotated[GpuCount, Source("quota.total")] = 0
    quota_by_type: Annotated[dict[str, float | int], Source("quota"), Convert(_quota_by_type)] = Field(
        default_factory=dict
    )
    """Quota by type; `any` is all other types."""
    effective_quota: GpuCount = 0
    """Less than the quota while too few GPUs are healthy."""
    reserved: GpuCount = 0
    weight: float = 1.0
    limit: GpuCount | None = None
    nodes: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    max_priority: int = f.MOST_PRIORITY
    max_runtime: Annotated[str | None, Convert(render_seconds)] = None
    dev_limit: Annotated[str | None, Convert(render_seconds)] = None
    idle: Annotated[dict[str, str] | None, Convert(_idle)] = None
    oversubscribe: bool = False
    configured: bool = False
    """config.toml defines it: each start of the server sets it again."""
    held: GpuCount = 0
    borrowed: GpuCount = 0
    demand: GpuCount = 0
    fair_share: GpuCount = 0
    exact_share: Annotated[float, Convert(lambda amount: amount / GPU)] = 0.0
    waiting: int = 0
    running: int = 0
    state: str = ""


STATE = QueueOut.model_fields.keys() - Queue.__dataclass_fields__.keys() - {"quota_by_type", "configured"}
"""Fields of the state of a queue."""


def queue_out(queue: Queue, state: "QueueState | None" = None, *, configured: bool = False) -> QueueOut:
    """Return the queue's rules and, if given, its state. `configured`: config.toml defines it."""
    figures = {name: getattr(state, name, QueueOut.model_fields[name].default) for name in STATE}
    return QueueOut.from_model(queue, configured=configured, **figures)


class GpuOut(Out):
    id: str
    type: str
    memory: int
    island: int = 0
    health: str = "healthy"
    outside: str = ""
    """User of the GPU outside Grus."""
    free: GpuCount = 1
    """Unallocated part; 0 if the GPU may not be used."""
    holders: Annotated[tuple[HolderOut, ...], Convert(holders_out)] = ()
    tag: TagOut | None = None
    """Recognized activity on it."""


class DrainIn(Strict):
    """Node to drain."""

    message: Annotated[str, f.judged(f.text(500, empty=True))] = ""
    """Reason and expected end, shown to users."""


class DrainOut(Out):
    """Node that is being drained."""

    message: str = ""
    by: Annotated[str, Derived(lambda drain: drain.by or "")] = ""
    at: Timestamp
    leave: tuple[str, ...] = ()
    """Jobs there that leave: they save their work."""
    stay: tuple[str, ...] = ()
    """Jobs there that run to their end: they save nothing, or are non-preemptible."""


class NodeOut(Out):
    id: str
    gpus: tuple[GpuOut, ...] = ()
    labels: Annotated[dict[str, str], Convert(dict)] = Field(default_factory=dict)
    cpu: Annotated[float | None, Convert(lambda millicores: millicores / 1000)] = None
    """Cores; None if they are not counted."""
    memory: int | None = None
    cordoned: bool = False
    drain: DrainOut | None = None
    """Drain of the node, while its jobs have to leave."""


Holders = Mapping[DeviceId, Iterable[tuple[JobId, int]]]
"""Holders of each device with their micro-GPUs."""
NOBODY: Holders = {}


Tags = Mapping[DeviceId, Tag]
NOTHING: Tags = {}


Leaving = Mapping[NodeId, tuple[Iterable[JobId], Iterable[JobId]]]
"""Jobs of each drained node: those that leave, those that run to their end."""
NONE_LEAVING: Leaving = {}


def node_out(
    node: Node, holders: Holders = NOBODY, tags: Tags = NOTHING, leaving: Leaving = NONE_LEAVING
) -> NodeOut:
    leave, stay = leaving.get(node.id, ((), ()))
    return NodeOut.from_model(
        node,
        gpus=[
            _gpu_out(device, tuple(holders.get(device.id, ())), tags.get(device.id))
            for device in node.devices
        ],
        drain=node.drain and DrainOut.from_model(node.drain, leave=tuple(leave), stay=tuple(stay)),
    )


def _gpu_out(device: Device, holders: tuple[tuple[JobId, int], ...], tag: Tag | None) -> GpuOut:
    free = max(0, GPU - sum(amount for _, amount in holders)) if device.usable else 0
    return GpuOut.from_model(device, free=free, holders=holders, tag=tag)


class ScaleIn(Strict):
    """New size of an elastic job: 4 pins it, 2..6 changes the range, auto restores the submitted range."""

    size: Annotated[
        str | int,
        f.judged(lambda value: value if value == "auto" else f.parsed(parse_range)(value)),
    ]


def to_size(scale: ScaleIn) -> Range | None:
    """Return the size in replicas of the elastic role; None for the submitted range."""
    return None if scale.size == "auto" else parse_range(scale.size)


class PoolOut(Out):
    """GPUs of the pool, in numbers."""

    nodes: int = 0
    gpus: int = 0
    usable: int = 0
    """Healthy and not in use outside Grus."""
    held: float | int = 0


class ForecastsOut(Out):
    """Calibration of forecasts: of ends, and of starts of jobs that had to wait; correct values are 0.5 and
    0.9.
    """

    settled: Annotated[int, Source("ends.settled")] = 0
    """Number of forecasts whose actual outcome is known."""
    p50_coverage: Annotated[float | None, Source("ends.p50_coverage")] = None
    """Fraction of the ends at or before the forecast P50; None without data."""
    p90_coverage: Annotated[float | None, Source("ends.p90_coverage")] = None
    starts_settled: Annotated[int, Source("starts.settled")] = 0
    start_p50_coverage: Annotated[float | None, Source("starts.p50_coverage")] = None
    start_p90_coverage: Annotated[float | None, Source("starts.p90_coverage")] = None


class StatusOut(Out):
    """Summary of the server's state."""

    version: str
    now: Timestamp
    started_at: Timestamp | None = None
    user: Annotated[str, Source("user.name")] = ""
    """Name of the requesting user."""
    role: Annotated[str, Source("user.role")] = ""
    pool: PoolOut = PoolOut()
    jobs: dict[str, int] = Field(default_factory=dict)
    """Number of jobs in each phase."""
    queues: int = 0
    mechanisms: dict[str, str] = Field(default_factory=dict)
    """Mechanisms that enforce limits here."""
    forecasts: ForecastsOut | None = None
    containers: bool = False
    """True if jobs run in containers on other machines: no folder and no PATH of a submitter exists there."""
    warnings: tuple[str, ...] = ()


def pool_out(nodes: Iterable[Node], held: int) -> PoolOut:
    """Return the pool for the wire; `held` in micro-GPUs."""
    nodes = tuple(nodes)
    devices = [device for node in nodes for device in node.devices]
    return PoolOut(
        nodes=len(nodes),
        gpus=len(devices),
        usable=sum(device.usable for device in devices),
        held=gpu_number(held),
    )
