"""Pictures of the pool for a terminal: GPUs as colored tiles, queues, jobs. Values in, rich renderables out.

Used by `top` and the demo; plain text for everything else is in the same order, by `plain_view`.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grus.cli.commands.jobs import LIVE
from grus.cli.render import telemetry_metrics as measured
from grus.cli.render.output import aligned, between, number, rich_table, size
from grus.model.errors import NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from grus.api.wire_types.job import JobOut, UsageOut
    from grus.api.wire_types.pool import GpuOut, NodeOut, QueueOut
    from grus.api.wire_types.telemetry import TelemetryOut
    from grus.sdk.client import Client

COLOURS = (
    "green",
    "blue",
    "magenta",
    "cyan",
    "yellow",
    "bright_green",
    "bright_blue",
    "bright_magenta",
    "bright_cyan",
)
TILE = 14
"""Characters of one tile."""
QUEUE_HEADINGS = (
    "QUEUE",
    "QUOTA",
    "RESERVED",
    "HELD",
    "FAIR SHARE",
    "BORROWED",
    "WAITING",
    "RUNNING",
    "STATE",
)
JOB_HEADINGS = (
    "ID",
    "NAME",
    "QUEUE",
    "PHASE",
    "GPUS",
    "USE",
    "MEMORY",
    "CPU",
    "KIND",
    "PERIOD",
    "STAGE",
    "RAN",
    "REASON",
)
MOST_GPUS = 40
"""Lines of GPUs in a live picture; those that somebody holds come first."""


def colour_of(name: str) -> str:
    """Always the same for the same name."""
    return COLOURS[zlib.crc32(name.encode()) % len(COLOURS)]


def closed_word(node: "NodeOut") -> str:
    """Reason that a node takes no new work; "" if it does."""
    if node.drain is not None:
        return " draining"
    return " cordoned" if node.cordoned else ""


def tiles(nodes: "Sequence[NodeOut]", names: Mapping[str, str]) -> "RenderableType":
    """One row per node, one tile per GPU, in the color of its job; `names` by job id."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for node in nodes:
        label = Text(node.id, style="bold") + Text(closed_word(node), style="yellow")
        cells = []
        for gpu in node.gpus:
            word = tile_word(gpu, names)
            cells.append(Text(word[: TILE - 2].center(TILE), style=_tile_style(gpu, colour_of(word))))
        grid.add_row(label, *cells)
    return grid


def tile_word(gpu: "GpuOut", names: Mapping[str, str]) -> str:
    """Return the user of the GPU: a job's name, several of them, "free", "outside", or its health if not
    healthy.
    """
    if gpu.outside:
        return "outside"
    if gpu.health != "healthy":
        return gpu.health
    return "+".join(names.get(one.job, one.job) for one in gpu.holders) or "free"


def _tile_style(gpu: "GpuOut", colour: str) -> str:
    if gpu.outside or gpu.health != "healthy":
        return "white on red"
    return f"black on {colour}" if gpu.holders else "dim on grey15"


def queue_tree(queues: "Sequence[QueueOut]") -> "list[tuple[int, QueueOut]]":
    """Queues with their depth, children after their parents."""
    ordered: list[tuple[int, QueueOut]] = []

    def walk(parent: str | None, level: int) -> None:
        for queue in (one for one in queues if one.parent == parent):
            ordered.append((level, queue))
            walk(queue.name, level + 1)

    walk(None, 0)
    return ordered


def queue_rows(queues: "Sequence[QueueOut]") -> list[list[str]]:
    """Children under their parents, indented."""
    return [["  " * level + one.name, *_queue_figures(one)] for level, one in queue_tree(queues)]


def _queue_figures(queue: "QueueOut") -> list[str]:
    quota = number(queue.quota)
    if queue.effective_quota != queue.quota:
        quota += f" (now {number(queue.effective_quota)})"
    if queue.oversubscribe:
        quota += " oversubscribed"
    amounts = (queue.reserved, queue.held, queue.fair_share, queue.borrowed)
    return [quota, *map(number, amounts), str(queue.waiting), str(queue.running), queue.state]


def job_rows(seen: "PoolSnapshot") -> list[list[str]]:
    rows = []
    for job in seen.jobs:
        found = measured.of_job(seen.telemetry, job.id)
        memory = measured.total(found, "memory") or measured.total(found, "host_memory")
        cores = measured.total(found, "cpu")
        rows.append(
            [
                *(job.id, job.name, job.queue, job.status, number(job.gpus)),
                measured.share(measured.mean(found, "utilisation")),
                measured.DASH if memory is None else size(memory),
                measured.DASH if cores is None else f"{cores:.1f}",
                *(measured.kind_word(job.tag), measured.period_word(job.tag), measured.stage_word(job.tag)),
                *(between(job.first_started_at, job.ended_at), job.reason),
            ]
        )
    return rows


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The pool at one moment."""

    nodes: "list[NodeOut]"
    queues: "list[QueueOut]"
    jobs: "list[JobOut]"
    usage: "list[UsageOut]"
    telemetry: "TelemetryOut | None" = None
    """None if telemetry is not measured."""

    @property
    def names(self) -> dict[str, str]:
        return {job.id: job.name for job in self.jobs}

    def as_json(self) -> dict[str, object]:
        return {
            "nodes": self.nodes,
            "queues": self.queues,
            "jobs": self.jobs,
            "usage": self.usage,
            "telemetry": self.telemetry,
        }


def look(client: "Client") -> PoolSnapshot:
    """Ask the server for all of it."""
    jobs = client.jobs(phases=LIVE, limit=100)
    return PoolSnapshot(client.nodes(), client.queues(), jobs, client.usage(), _telemetry(client))


def _telemetry(client: "Client") -> "TelemetryOut | None":
    try:
        return client.telemetry()
    except NotFound:
        return None


def picture(seen: PoolSnapshot) -> "RenderableType":
    """All of it, for `top`."""
    from rich.console import Group
    from rich.text import Text

    gpus = measured.gpu_rows(seen.nodes, seen.telemetry, seen.names)
    gpus.sort(key=lambda row: not row[-1])
    more = [Text(f"… and {len(gpus) - MOST_GPUS} more")] if len(gpus) > MOST_GPUS else []
    lost = [Text(line, style="red") for line in measured.losses(seen.telemetry)]
    return Group(
        tiles(seen.nodes, seen.names),
        *lost,
        Text(),
        rich_table(measured.GPU_HEADINGS, gpus[:MOST_GPUS]),
        *more,
        Text(),
        rich_table(QUEUE_HEADINGS, queue_rows(seen.queues)),
        Text(),
        rich_table(JOB_HEADINGS, job_rows(seen)),
    )


def plain_view(seen: PoolSnapshot) -> str:
    """The same as text without colors."""
    pool = [[node.id, " ".join(tile_word(gpu, seen.names) for gpu in node.gpus)] for node in seen.nodes]
    parts = [
        aligned(("NODE", "GPUS"), pool),
        measured.losses(seen.telemetry),
        aligned(measured.GPU_HEADINGS, measured.gpu_rows(seen.nodes, seen.telemetry, seen.names)),
        aligned(QUEUE_HEADINGS, queue_rows(seen.queues)),
        aligned(JOB_HEADINGS, job_rows(seen)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)
