"""The pool as a page prints it: words, numbers and names of classes. Pure; the page and its stream share it.

Presentation is decided only here: the browser inserts these texts and classes and computes nothing. A job
that its viewer may not see is "somebody's": no id, no name, no color of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple
from zlib import crc32

from grus.controlplane.monitoring.trend_forecast import Prospect
from grus.dashboard.live_state.gpu_tiles import GpuMeasurement, Holder, NodeNow, Sums, Tile, Tiles
from grus.dashboard.live_state.pool_now import Demand
from grus.model.identifiers import QueueName, UserName
from grus.model.jobs import Phase
from grus.model.nodes import Device, Health
from grus.model.resources import GPU
from grus.model.texts.units import gpu_number
from grus.patterns.demand_forecast import Nothing

HUES = 6
"""Number of colors that distinguish jobs and people; the stylesheet has as many."""
STEPS = 20
"""Classes of utilization (u0 to u20) and of the width of a slice (w1 to w20)."""
ROOMY, DENSE = 16, 160
"""GPUs up to which tiles are large, and of middle size."""
SIZES = (("", "fitting"), ("roomy", "large"), ("dense", "middle"), ("tiny", "small"))
"""Sizes of tiles, as the address of the page and as people name them."""
HEALTH = {
    Health.DIRTY: "not clean: memory of a job that ended is still taken",
    Health.QUARANTINED: "quarantined",
}
SIGNS = {Health.DIRTY: "⚠", Health.QUARANTINED: "⊘"}

Sees = Callable[[UserName, QueueName], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The viewer, and the jobs that the viewer may see."""

    name: UserName
    sees: Sees


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceView:
    """A job on a GPU, or on a part of it."""

    css: str
    href: str
    """Empty for a job that may not be seen."""
    name: str
    by: str
    part: str
    """The part of the GPU; empty for all of it."""
    state: str
    """The state of the job; empty if it simply runs."""


class UseView(NamedTuple):
    """Measurements in words; empty if not measured. A tuple: a stream sends many of these."""

    place: int
    percent: int
    """0 where it is not known."""
    busy: str
    memory: str
    instances: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TileView:
    """A GPU."""

    place: int
    css: str
    kind: str
    trouble: str
    sign: str
    """Replaces the text of the problem if there is no room for it."""
    slices: tuple[SliceView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """A GPU with what never changes while the page stands."""

    id: str
    label: str
    type: str
    """Empty where it is that of its node."""
    total: str
    tile: TileView
    use: UseView


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The header of a node."""

    place: int
    held: str
    closed: str
    """`cordoned` or `draining`; empty for a node that takes work."""
    closed_title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCard:
    """A node with its GPUs."""

    id: str
    type: str
    total: str
    """Memory of each GPU."""
    node: NodeView
    gpus: tuple[GpuView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes under one heading; a pool of one type has one group without a name."""

    name: str
    gpus: int
    nodes: tuple[NodeCard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsView:
    """The pool at a glance."""

    gpus: str
    usable: str
    held: str
    held_part: int
    """Percent of the usable GPUs."""
    free: str
    jobs: str
    busy: str
    busy_part: int
    waiting: str
    wanted: str


# -------------------------------------------------------------------------------------------------- GPUs


def tile_view(tile: Tile, viewer: Viewer) -> TileView:
    trouble, sign = _trouble(tile)
    slices = tuple(slice_view(holder, viewer) for holder in tile.holders)
    words = ["gpu"]
    if not slices:
        words.append("free" if not trouble else "out")
    if trouble:
        words.append("trouble")
    if any(holder.user == viewer.name for holder in tile.holders):
        words.append("mine")
    if tile.kind:
        words.append(f"kind-{tile.kind}")
    return TileView(
        place=tile.place,
        css=" ".join(words),
        kind=f"{tile.kind}, hangs" if tile.hung else tile.kind,
        trouble=trouble,
        sign=sign,
        slices=slices,
    )


def _trouble(tile: Tile) -> tuple[str, str]:
    """Return the problem of a GPU, in words and as a sign."""
    device = tile.device
    if device.health is not Health.HEALTHY:
        return HEALTH[device.health], SIGNS[device.health]
    if device.outside:
        return f"used outside Grus: {device.outside}", "⚠"
    if tile.hung:
        return "no progress", "⚠"
    if tile.fault is not None:
        return f"its driver told error {tile.fault}", "⚠"
    return "", ""


def slice_view(holder: Holder, viewer: Viewer) -> SliceView:
    width = f"w{max(1, round(STEPS * holder.share / GPU))}"
    part = "" if holder.share == GPU else f"{gpu_number(holder.share)} GPU"
    state = "leaving" if holder.leaving else "" if holder.phase is Phase.RUNNING else holder.phase.value
    if not viewer.sees(holder.user, holder.queue):
        return SliceView(css=f"slice {width} hidden-job", href="", name="held", by="", part=part, state=state)
    css = f"slice {width} j{_hue(holder.job)} p{_hue(holder.user)}{' soft' if state else ''}"
    href = f"/jobs/{holder.job}"
    return SliceView(css=css, href=href, name=holder.name, by=holder.user, part=part, state=state)


def _hue(text: str) -> int:
    """Return the same color for the same name at all times."""
    return crc32(text.encode()) % HUES


def use_view(place: int, use: GpuMeasurement, memory: int) -> UseView:
    return UseView(
        place=place,
        percent=use.busy or 0,
        busy="" if use.busy is None else f"{use.busy}%",
        memory="" if use.memory is None else f"{use.memory / 1e9:.0f}/{memory / 1e9:.0f} GB",
        instances=", ".join(f"instance {number}: {busy}%" for number, busy in use.instances),
    )


def step(percent: int) -> int:
    """Return the class of a utilization."""
    return round(STEPS * percent / 100)


# ------------------------------------------------------------------------------------------ nodes and pool


def node_view(node: NodeNow) -> NodeView:
    effect = {
        "cordoned": "It takes no new work; running jobs continue.",
        "draining": "It takes no new work; jobs that save their work leave.",
    }.get(node.closed, "")
    return NodeView(
        place=node.place,
        held=f"{gpu_number(node.held)} of {node.gpus} held",
        closed=node.closed,
        closed_title=f"{effect} {node.drain_message}".strip(),
    )


def groups(tiles: Tiles, viewer: Viewer, *, by_type: bool) -> list[Group]:
    """All nodes in their order, under one heading for each type where that is wanted."""
    cards = [_card(tiles, number, viewer) for number in range(len(tiles.nodes))]
    if not by_type:
        return [Group(name="", gpus=sum(len(card.gpus) for card in cards), nodes=tuple(cards))]
    cards.sort(key=lambda card: card.type)
    found = []
    for name, same in groupby(cards, key=lambda card: card.type):
        nodes = tuple(same)
        found.append(Group(name=name, gpus=sum(len(card.gpus) for card in nodes), nodes=nodes))
    return found


def _card(tiles: Tiles, number: int, viewer: Viewer) -> NodeCard:
    now = tiles.node(number)
    mine = tiles.of_node(number)
    types = sorted({tile.device.type for tile in mine})
    same = len({(tile.device.type, tile.device.memory) for tile in mine}) == 1
    gpus = tuple(_gpu(tile, tiles.use(tile.place), place, viewer, same) for place, tile in enumerate(mine))
    total = _total(mine[0].device) if same else ""
    return NodeCard(id=now.id, type=", ".join(types), total=total, node=node_view(now), gpus=gpus)


def _gpu(tile: Tile, use: GpuMeasurement, place: int, viewer: Viewer, same: bool) -> GpuView:
    device = tile.device
    return GpuView(
        id=device.id,
        label=str(place),
        type="" if same else device.type,
        total="" if same else _total(device),
        tile=tile_view(tile, viewer),
        use=use_view(tile.place, use, device.memory),
    )


def _total(device: Device) -> str:
    return f"{device.memory / 1e9:.0f} GB"


def types_of(tiles: Sequence[Tile]) -> list[tuple[str, int]]:
    """Every type of GPU with how many there are."""
    counted: dict[str, int] = {}
    for tile in tiles:
        counted[tile.device.type] = counted.get(tile.device.type, 0) + 1
    return sorted(counted.items())


def density(gpus: int) -> str:
    return "roomy" if gpus <= ROOMY else "dense" if gpus <= DENSE else "tiny"


def sums_view(sums: Sums, demand: Demand) -> SumsView:
    usable = max(sums.usable, 1)
    return SumsView(
        gpus=f"{sums.gpus // GPU:,}",
        usable=f"{sums.usable // GPU:,} usable, {_plural(sums.nodes, 'node')}",
        held=_gpus(sums.held),
        held_part=min(100, round(100 * sums.held / usable)),
        free=f"{_gpus(max(0, sums.usable - sums.held))} free",
        jobs=f"by {_plural(sums.jobs, 'job')}",
        busy="–" if sums.busy is None else f"{sums.busy:.0f}%",
        busy_part=0 if sums.busy is None else round(sums.busy),
        waiting=f"{demand.waiting:,}",
        wanted=f"{_plural(round(demand.wanted / GPU), 'GPU')} wanted in all",
    )


def _gpus(amount: int) -> str:
    """Micro-GPUs as GPUs, to a tenth."""
    return f"{round(amount / GPU, 1):,}".removesuffix(".0")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# ----------------------------------------------------------------------------------------------- the future


def outlook(prospect: Prospect, usable: int) -> str:
    """The next hour of the pool in words; `usable` GPUs are there."""
    if isinstance(prospect.found, Nothing):
        return f"No forecast yet: {prospect.found.sentence}"
    found = prospect.found
    first, last = float(found.median[0]), float(found.median[-1])
    most, low, high = float(found.median.max()), float(found.low[-1]), float(found.high[-1])
    told = (
        f"Demand {_trend(first, last)} about {last:.0f} GPUs within the hour (90%: {low:.0f} to {high:.0f})"
    )
    short = round(most) - usable
    if short > 0:
        return f"{told}; at its peak {_plural(short, 'GPU')} will be missing."
    return f"{told}; {_plural(-short, 'GPU')} will be free at its peak." if short else f"{told}."


def _trend(first: float, last: float) -> str:
    if abs(last - first) < max(1.0, 0.05 * first):
        return "stays at"
    return "rises to" if last > first else "falls to"
