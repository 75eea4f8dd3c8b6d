"""The profiled graphs of dnn-partitioning as operator graphs, and what experts made of them.

An operator's memory counts as permanent, its output included. An output's bytes are those that take the given
time over the link; an edge of the backward pass stands in the file in the direction of the forward pass (the
gradient of the source's output), which makes no difference to a device's load.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Link

BYTES_PER_S = 2**31
"""What the costs of the latency graphs amount to; those of the throughput graphs are a thousandth."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """One file: times there are milliseconds, here seconds."""

    name: str
    graph: OpGraph
    devices: int
    memory: int
    link: Link
    expert: tuple[int, ...] | None
    """The expert's device of each operator, where there is one."""


def folder() -> Path | None:
    root = os.environ.get("GRUS_DATA")
    found = Path(root) / "dnn-partitioning" if root else None
    return found if found is not None and found.is_dir() else None


def read_all(root: Path, kind: str) -> list[Profiled]:
    """Kind: `latency` or `throughput`."""
    link = Link(1 / BYTES_PER_S) if kind == "latency" else Link(1e-3 / BYTES_PER_S)
    return [read(path, link, root / "human-experts") for path in sorted((root / kind).glob("*.json"))]


def read(path: Path, link: Link, experts: Path) -> Profiled:
    held = json.loads(path.read_text(encoding="utf-8"))
    numbers = {node["id"]: number for number, node in enumerate(held["nodes"])}
    cost = {edge["sourceId"]: edge["cost"] / 1e3 for edge in held["edges"]}
    ops = []
    for node in held["nodes"]:
        output, size = round(cost.get(node["id"], 0.0) / link.seconds_per_byte), round(node["size"])
        group = f"class {node['colorClass']}" if "colorClass" in node else ""
        seconds = node["fpgaLatency"] / 1e3
        ops.append(Op(node["name"], seconds, size, 0, output, saved=output <= size, group=group))
    edges = {(numbers[edge["sourceId"]], numbers[edge["destId"]]) for edge in held["edges"]}
    return Profiled(
        name=f"{path.parent.name}/{path.stem}",
        graph=OpGraph(tuple(ops), tuple(sorted(edges))),
        devices=held["maxFPGAs"],
        memory=round(held["maxSizePerFPGA"]),
        link=link,
        expert=_expert(experts / f"{path.stem}_expert.json", numbers),
    )


def _expert(path: Path, numbers: dict[int, int]) -> tuple[int, ...] | None:
    if not path.is_file():
        return None
    device_of = [0] * len(numbers)
    for device, part in enumerate(json.loads(path.read_text(encoding="utf-8"))["fpgas"]):
        for node in part["nodes"]:
            device_of[numbers[node]] = device
    return tuple(device_of)
