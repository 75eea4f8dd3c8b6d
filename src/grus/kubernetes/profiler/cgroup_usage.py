"""Host usage of this node's pods, from their control groups; also virtual GPUs.

On virtual GPUs, as in tests, a pod's CPU time counts as GPU time and its memory as GPU memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

from grus.kubernetes.node.cgroups import CgroupUsage, Groups
from grus.kubernetes.profiler.attribution import subject
from grus.kubernetes.profiler.pods import GpuPod
from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.counter_rates import rate
from grus.telemetry.samples import Measure, Sample, Subject


class _PreviousUsage(NamedTuple):
    at: float
    use: CgroupUsage


class Hosts:
    """Keeps the previous values of each pod, to compute rates. Not for several threads."""

    def __init__(self, groups: Groups, node: NodeId, *, pretend: bool) -> None:
        self._groups = groups
        self._node = node
        self._pretend = pretend
        self._before: dict[str, _PreviousUsage] = {}

    def sample(self, pods: Sequence[GpuPod], now: float) -> list[Sample]:
        """Return samples of each pod and of virtual GPUs; none of a pod that was not seen before."""
        found = []
        for pod in pods:
            found += self._of(pod, now)
        gone = self._before.keys() - {pod.uid for pod in pods}
        for uid in gone:
            del self._before[uid]
            self._groups.forget(uid)
        return found

    def _of(self, pod: GpuPod, now: float) -> list[Sample]:
        use = self._groups.use(pod.uid)
        if use is None:
            return []
        before = self._before.get(pod.uid)
        self._before[pod.uid] = _PreviousUsage(now, use)
        if before is None or now <= before.at:
            return []
        cores = max(0.0, use.cpu_seconds - before.use.cpu_seconds) / (now - before.at)
        disk = _disk(before.use, use, now - before.at)
        values = {Measure.CPU: cores, Measure.HOST_MEMORY: float(use.memory), **disk}
        if not self._pretend:
            return [Sample(subject(self._node, pod), now, values)]
        gpus = max(1, len(pod.devices))
        pretended = {
            Measure.UTILISATION: min(1.0, cores / gpus),
            Measure.MEMORY: float(use.memory // gpus),
        }
        devices = [
            Sample(Subject(node=self._node, device=DeviceId(device)), now, pretended, pod.full_name)
            for device in pod.devices
        ]
        return [Sample(subject(self._node, pod), now, values | pretended), *devices]


def _disk(before: CgroupUsage, now: CgroupUsage, seconds: float) -> dict[Measure, float]:
    """Bytes a second; absent where they are not counted."""
    if before.disk is None or now.disk is None:
        return {}
    told = {
        Measure.DISK_READ: rate(before.disk[0], now.disk[0], seconds),
        Measure.DISK_WRITE: rate(before.disk[1], now.disk[1], seconds),
    }
    return {measure: value for measure, value in told.items() if value is not None}
