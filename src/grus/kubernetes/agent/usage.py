"""Resource usage of this node's pods, and detection of pods that exceed their slice.

GPUs are measured by the driver's values per process. On virtual GPUs, as in tests, a pod's own memory counts
as GPU memory and its CPU time as GPU time, as on virtual GPUs of one machine.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grus.kubernetes.agent.pods import AssignedPod
from grus.kubernetes.node.cgroups import CgroupUsage, Groups
from grus.telemetry.device_provider import Reading
from grus.telemetry.network_traffic import interfaces

EVERY = 10.0
"""Seconds between two measurements that are reported."""
SOON = 1.0
"""The same after pods have come or gone."""
WATCH = 2.0
"""Seconds between two looks at pods that have a cap."""
UNKNOWN = (None, None)


@dataclass(frozen=True, slots=True)
class GpuUse:
    utilisation: float | None
    """0 to 1, the mean over its GPUs."""
    memory: int
    """Bytes on all its GPUs."""
    worst: int
    """Bytes on the GPU where it has most."""


class Gpus(Protocol):
    """Measurement of GPU usage on this node."""

    def use(self, pod: AssignedPod, pids: Collection[int], use: CgroupUsage, now: float) -> GpuUse | None:
        """None where nothing is known."""
        ...


class NoGpus:
    def use(self, pod: AssignedPod, pids: Collection[int], use: CgroupUsage, now: float) -> GpuUse | None:  # noqa: ARG002
        return None


class VirtualGpus:
    """Measurement on virtual GPUs: memory and CPU of the pod count as those of its GPUs."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def use(self, pod: AssignedPod, pids: Collection[int], use: CgroupUsage, now: float) -> GpuUse | None:  # noqa: ARG002
        at, used = self._before.get(pod.uid, (now, use.cpu_seconds))
        self._before[pod.uid] = (now, use.cpu_seconds)
        gpus = max(1, len(pod.uuids.split(",")))
        rate = (use.cpu_seconds - used) / (now - at) / gpus if now > at else None
        return GpuUse(None if rate is None else min(1.0, max(0.0, rate)), use.memory, use.memory // gpus)


class GpuReadingSource(Protocol):
    """Part of a `DeviceSource` that is needed here."""

    def readings(self) -> tuple[Reading, ...]: ...


class MeasuredGpus:
    """GPU usage by the driver's values for each process."""

    def __init__(self, source: GpuReadingSource) -> None:
        self._source = source

    def use(self, pod: AssignedPod, pids: Collection[int], use: CgroupUsage, now: float) -> GpuUse | None:  # noqa: ARG002
        own, held = [], []
        for reading in self._source.readings():
            bytes_ = sum(size for pid, size in reading.processes if pid in pids)
            if bytes_ or reading.id in pod.uuids.split(","):
                own.append(reading.utilisation)
                held.append(bytes_)
        if not held:
            return None
        known = [one for one in own if one is not None]
        return GpuUse(sum(known) / len(known) if known else None, sum(held), max(held))


@dataclass(frozen=True, slots=True)
class Measured:
    use: CgroupUsage
    gpu: GpuUse | None
    network: tuple[int, int] | None = None
    """Bytes received and sent so far over the pod's own network; None where it has none of its own."""


def told(at: float, measured: Mapping[str, Measured]) -> str:
    """The text of the annotation."""
    pods = {
        uid: [
            round(one.use.cpu_seconds, 3),
            one.use.memory,
            None if one.gpu is None or one.gpu.utilisation is None else round(one.gpu.utilisation, 3),
            None if one.gpu is None else one.gpu.memory,
        ]
        for uid, one in measured.items()
    }
    io = {uid: [*(one.use.disk or UNKNOWN), *(one.network or UNKNOWN)] for uid, one in measured.items()}
    return json.dumps({"at": round(at, 3), "pods": pods, "io": io}, separators=(",", ":"))


def excess(pod: AssignedPod, measured: Measured) -> str:
    """A sentence about a pod that uses more GPU memory than it may, else ""."""
    if not pod.gpu_memory or measured.gpu is None or measured.gpu.worst <= pod.gpu_memory:
        return ""
    used, cap = measured.gpu.worst / (1 << 20), pod.gpu_memory / (1 << 20)
    return f"used {used:.0f} MiB, more than its slice of GPU memory of {cap:.0f} MiB"


class AgentMeter:
    """Measurement schedule, and the measurements themselves."""

    def __init__(self, groups: Groups, gpus: Gpus) -> None:
        self._groups = groups
        self._gpus = gpus
        self._known: frozenset[str] = frozenset()
        self._tell_at = 0.0
        self._look_at = 0.0
        self._told = False
        """True if the last report names any pod."""

    def plan(self, pods: Sequence[AssignedPod], now: float) -> None:
        """Measure sooner if other pods run than before."""
        running = frozenset(pod.uid for pod in pods)
        if running != self._known:
            self._known = running
            self._tell_at = min(self._tell_at, now + SOON) if self._tell_at > now else now + SOON
        capped = any(pod.gpu_memory for pod in pods)
        self._look_at = min(self._tell_at, self._look_at if capped else self._tell_at)

    def pause(self, now: float) -> float:
        return max(0.0, self._look_at - now)

    def measure(self, pods: Sequence[AssignedPod], now: float) -> tuple[Mapping[str, Measured], bool]:
        """Measure each running pod; return the results, and
        whether to report them; nothing while none is due.
        """
        if now < self._look_at:
            return {}, False
        tell = now >= self._tell_at
        if tell:
            self._tell_at = now + EVERY
            tell, self._told = bool(pods) or self._told, bool(pods)
        self._look_at = min(now + WATCH, self._tell_at)
        found = {pod.uid: self._one(pod, now) for pod in pods}
        return {uid: one for uid, one in found.items() if one is not None}, tell

    def _one(self, pod: AssignedPod, now: float) -> Measured | None:
        use = self._groups.use(pod.uid)
        if use is None:
            return None
        pids = self._groups.processes(pod.uid)
        return Measured(use, self._gpus.use(pod, set(pids), use, now), _network(pod, pids))


def _network(pod: AssignedPod, pids: Collection[int]) -> tuple[int, int] | None:
    """All processes of a pod share its network."""
    if pod.host_network:
        return None
    counts = (interfaces(f"/proc/{pid}/net/dev") for pid in pids)
    return next((count for count in counts if count is not None), None)
