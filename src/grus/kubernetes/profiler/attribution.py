"""Attribution of GPU measurements to the pods that have the GPUs. Pure.

A source may itself name the pod on a GPU (`Sample.holder`). That can be late, so where the node agent has
named the GPUs of a pod, the agent's data counts. A measurement of a shared GPU belongs to no pod alone: a pod
gets the GPU's activity, which is the best available value, but not its memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from grus.kubernetes.profiler.pods import GpuPod
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.telemetry.samples import Measure, Sample, Subject

SUMS = frozenset({Measure.MEMORY, Measure.POWER})
"""Measures of several GPUs that are added up; of the others the mean is reported."""
OWN = frozenset({Measure.MEMORY, Measure.POWER})
"""Measures that cannot be attributed to one pod where several share the GPU."""


def subject(node: NodeId, pod: GpuPod) -> Subject:
    """Return the subject of a pod: its uid takes the place of a job's id."""
    return Subject(node=node, job=JobId(pod.uid), worker=WorkerId(pod.uid))


def of_pods(samples: Iterable[Sample], pods: Sequence[GpuPod], node: NodeId) -> list[Sample]:
    """One sample for each pod of which anything was measured, as old as the oldest of its GPUs'."""
    by_device: dict[DeviceId, list[Sample]] = {}
    for sample in samples:
        if sample.subject.device is not None and sample.subject.node == node:
            by_device.setdefault(sample.subject.device, []).append(sample)
    found: dict[str, list[Sample]] = {}
    for own in by_device.values():
        for sample in own:
            holders = _holders(sample, pods)
            for pod in holders:
                found.setdefault(pod.uid, []).append(sample if len(holders) == 1 else _shared(sample))
    by_uid = {pod.uid: pod for pod in pods}
    return [_together(subject(node, by_uid[uid]), own) for uid, own in found.items()]


def holders(samples: Iterable[Sample], pods: Sequence[GpuPod]) -> dict[str, frozenset[DeviceId]]:
    """The GPUs of each pod, by its uid."""
    found: dict[str, set[DeviceId]] = {}
    for sample in samples:
        if sample.subject.device is not None:
            for pod in _holders(sample, pods):
                found.setdefault(pod.uid, set()).add(sample.subject.device)
    return {uid: frozenset(devices) for uid, devices in found.items()}


def _holders(sample: Sample, pods: Sequence[GpuPod]) -> list[GpuPod]:
    device = sample.subject.device
    named = [pod for pod in pods if device in pod.uuids or device in pod.devices]
    if named or not sample.holder:
        return named
    return [pod for pod in pods if pod.full_name == sample.holder]


def _shared(sample: Sample) -> Sample:
    return replace(sample, values={name: one for name, one in sample.values.items() if name not in OWN})


def _together(whose: Subject, samples: Sequence[Sample]) -> Sample:
    values: dict[Measure, float] = {}
    for name in {name for sample in samples for name in sample.values}:
        known = [sample.values[name] for sample in samples if name in sample.values]
        if name in SUMS:
            if len(known) == len(samples):
                values[name] = sum(known)
        else:
            values[name] = sum(known) / len(known)
    return Sample(whose, min(sample.at for sample in samples), values)


def merged(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples of the same subject merged: the host's and the GPU's measurements of a pod."""
    found: dict[Subject, Sample] = {}
    for sample in samples:
        before = found.get(sample.subject)
        if before is not None:
            values: Mapping[Measure, float] = {**before.values, **sample.values}
            sample = Sample(sample.subject, min(before.at, sample.at), values, sample.holder)
        found[sample.subject] = sample
    return list(found.values())
