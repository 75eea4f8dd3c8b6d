"""Records of the sampler: one JSON object per line, complete up to the line at which a run was cut off.

    {"kind": "start",  "at": …, "node": {…}, "code": {…}, "data": […], …}     once, before the workload
    {"kind": "stage",  "t": …, "name": "setup"}                               when a stage begins
    {"kind": "sample", "t": …, "cpu": …, "memory": …, "node_cpu": …, …}       every period
    {"kind": "report", "t": …, "figures": {"step": 3, "batch": 32}, …}        the workload's own report
    {"kind": "end",    "t": …, "code": 0, …}                                  once, if the sampler saw it

`t` is seconds since the sampler began, by the node's monotonic clock; only `at` is a time of day. A figure
that could not be measured is absent, and None here. Rates are means since the sample before.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grus.model.errors import BadInput, Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU that the run could see."""

    index: int
    name: str = ""
    uuid: str = ""
    memory: float | None = None
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The machine that it ran on, as the run itself saw it."""

    host: str = ""
    cpu_model: str = ""
    cores: int = 0
    """Logical processors of the node …"""
    allowed: float = 0.0
    """… and those that the run may use: affinity and cgroup quota, whichever is less."""
    memory: float | None = None
    """Bytes of the node …"""
    memory_allowed: float | None = None
    """… and of the run's own limit, where it has one."""
    kernel: str = ""
    system: str = ""
    python: str = ""
    driver: str = ""
    container: str = ""
    """`docker`, `kubernetes`, `slurm` … as far as it can be detected; empty for none."""
    filesystem: str = ""
    """File system of its working folder."""
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Content of a folder or file when the run began."""

    path: str
    digest: str
    """Empty where there was nothing."""
    files: int = 0
    bytes: int = 0
    whole: bool = True
    """True if the digest covers every byte; for very much data it covers names, sizes and both ends of every
    file.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    index: int
    use: float | None = None
    """Part of the time in which a kernel ran, 0 to 1."""
    memory: float | None = None
    """Bytes in use, by all processes."""
    power: float | None = None
    """Watts."""
    mine: bool = True
    """True if the GPU is one of those that the workload was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSample:
    """Workload, its load beside it, the sampler itself, and all of the node: four different things."""

    t: float
    cpu: float | None = None
    """Cores that the workload's processes used."""
    memory: float | None = None
    """Bytes that they hold: what each has for itself, and the largest part that one shares with others."""
    read: float | None = None
    """Bytes a second from the file systems …"""
    write: float | None = None
    """… and to them."""
    processes: int = 0
    load_cpu: float | None = None
    """Cores that the load beside it used."""
    own_cpu: float | None = None
    """Cores that the sampler used."""
    node_cpu: float | None = None
    """Cores that were used on the node, by everybody."""
    node_memory: float | None = None
    """Bytes of the node that programs could not have now."""
    host_energy: float | None = None
    """Joules that the node's processors took since the sample before, where they count them."""
    gpus: tuple[GpuSample, ...] = ()

    @property
    def others_cpu(self) -> float | None:
        """Cores that somebody else used on the node."""
        parts = (self.node_cpu, self.cpu, self.load_cpu, self.own_cpu)
        if self.node_cpu is None or self.cpu is None:
            return None
        return max(0.0, self.node_cpu - sum(part or 0.0 for part in parts[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReport:
    """The workload's own report: numbers, and words such as `precision`."""

    t: float
    figures: Mapping[str, float]
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStart:
    t: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    t: float
    code: int
    """Exit code of the workload; 128 + the signal's number where one ended it."""
    timed_out: bool = False
    """True if it was ended because it lasted too long …"""
    stopped: bool = False
    """… or because the environment requested its end."""
    cpu_seconds: float | None = None
    """CPU time of all its processes, the ended ones included."""
    own_cpu_seconds: float | None = None
    """The sampler's own CPU time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run, as its sampler saw it."""

    at: float
    """Start time of the sampler, by the node's clock."""
    name: str
    period: float
    load: int
    """Processes of the load beside it."""
    argv: tuple[str, ...]
    node: Node
    code: Contents
    data: tuple[Contents, ...] = ()
    given: tuple[int, ...] = ()
    """Indices of the GPUs that the workload could use."""
    samples: tuple[ResourceSample, ...] = ()
    told: tuple[WorkloadReport, ...] = ()
    stages: tuple[StageStart, ...] = ()
    finish: Finish | None = None
    """None where the run was cut off."""


def read(text: str, where: str = "record.jsonl") -> RunRecord:
    """The record of a run; a last line that was cut off is left out. Raises BadInput if it is none."""
    lines = text.splitlines()
    found: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(lines, start=1):
        value = _object(line)
        if value is None:
            if number == len(lines):
                break
            raise BadInput([Mistake("record", "must be a JSON object a line", line[:60], number)])
        found.setdefault(str(value.get("kind")), []).append(value)
    starts = found.get("start", [])
    if len(starts) != 1:
        rule = f"must have one line of the kind start, and has {len(starts)}: the sampler wrote no such file"
        raise BadInput([Mistake("record", rule, where)])
    try:
        return _record(starts[0], found)
    except (KeyError, TypeError, ValueError) as error:
        rule = f"is not as this version writes it: {type(error).__name__}: {error}"
        raise BadInput([Mistake("record", rule, where)]) from None


def began(text: str) -> float | None:
    """Return the sampler's start time, by the node's clock; None if it has not started."""
    first = _object(text.partition("\n")[0])
    at = first.get("at") if first else None
    return float(at) if isinstance(at, int | float) else None


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _record(start: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]]) -> RunRecord:
    node = start["node"]
    ends = [_without_kind(value) for value in found.get("end", [])]
    return RunRecord(
        at=float(start["at"]),
        name=str(start["name"]),
        period=float(start["period"]),
        load=int(start["load"]),
        argv=tuple(start["argv"]),
        node=Node(**{**node, "gpus": tuple(Gpu(**gpu) for gpu in node.get("gpus", ()))}),
        code=Contents(**start["code"]),
        data=tuple(Contents(**one) for one in start["data"]),
        given=tuple(start["given"]),
        samples=tuple(_sample(value) for value in found.get("sample", [])),
        told=tuple(_told(value) for value in found.get("report", [])),
        stages=tuple(StageStart(t=float(one["t"]), name=str(one["name"])) for one in found.get("stage", [])),
        finish=Finish(**ends[-1]) if ends else None,
    )


def _without_kind(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if name != "kind"}


def _sample(value: Mapping[str, Any]) -> ResourceSample:
    rest = _without_kind(value)
    gpus = tuple(GpuSample(**gpu) for gpu in rest.pop("gpus", ()))
    return ResourceSample(**rest, gpus=gpus)


def _told(value: Mapping[str, Any]) -> WorkloadReport:
    figures = {
        str(name): float(number)
        for name, number in value.get("figures", {}).items()
        if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    }
    words = {str(name): str(word) for name, word in value.get("words", {}).items()}
    return WorkloadReport(t=float(value["t"]), figures=figures, words=words)
