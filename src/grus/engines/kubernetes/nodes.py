"""Node conversion: a Node object and its pods as a node of the pool. Pure.

The kubelet decides which physical GPU a pod gets: Grus counts. Its devices are numbered, "<node>/<number>",
as many as the node reports; a worker's pod names its devices (DEVICES), and pods of other schedulers count as
using those that are left, from the last one down.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from grus.engines.kubernetes import topology
from grus.engines.kubernetes.quantities import amount, asked
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import DEVICES, RESERVATION
from grus.model.identifiers import DeviceId, NodeId
from grus.model.nodes import Device, Health, Node
from grus.model.texts.plural_words import counted

SCHEDULER = "grus"
_THOUSANDTHS = 1000
_EFFECTS = ("NoSchedule", "NoExecute")
_OWN_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/uninitialized")
"""Kubernetes' own taints of a node that is not ready or cordoned, which is handled elsewhere."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node of the pool, and what is wrong with it."""

    node: Node
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _PodUsage:
    """Resources of a node that pods use."""

    held: frozenset[int]
    """Numbers of the places that Grus's own pods hold."""
    outside: tuple[str, ...]
    """Pods that use a GPU outside Grus, once for each GPU."""
    cpu: int
    memory: int
    pods: int


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for nodes: the GPU resource's name, and the taints that are tolerated."""

    resource: str = "nvidia.com/gpu"
    tolerations: Sequence[Mapping[str, Any]] = field(default=())

    def all_tolerations(self) -> list[Mapping[str, Any]]:
        """Nodes with GPUs are often tainted by the name of the resource, to keep other work away."""
        return [{"key": self.resource, "operator": "Exists"}, *self.tolerations]


def seen(node: Object, pods: Iterable[Object], rules: Rules) -> ObservedNode | None:
    """None for a node without GPUs: it is no part of the pool."""
    name = node["metadata"]["name"]
    status = node.get("status") or {}
    there = amount((status.get("allocatable") or {}).get(rules.resource, 0))
    built_in = max(there, amount((status.get("capacity") or {}).get(rules.resource, 0)))
    taken = _taken(name, pods, rules.resource)
    if not built_in and not taken.held:
        return None
    unfit = _unfit(node, rules)
    labels = node["metadata"].get("labels") or {}
    devices, surplus = _devices(name, labels, built_in, there, taken, unfit, rules.resource)
    allocatable = status.get("allocatable") or {}
    found = Node(
        id=NodeId(name),
        devices=devices,
        labels=tuple(sorted(topology.placed(labels).items())),
        cpu=_rest(allocatable, "cpu", taken.cpu, _THOUSANDTHS),
        memory=_rest(allocatable, "memory", taken.memory),
        cordoned=bool(unfit)
        or _full(allocatable, taken)
        or bool((node.get("spec") or {}).get("unschedulable")),
    )
    return ObservedNode(found, _complaints(name, surplus, built_in, there, taken))


def ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def terminal(pod: Mapping[str, Any]) -> bool:
    """Return whether the kubelet confirms that nothing of the pod runs, or ever will: its GPUs are free."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    if not metadata.get("deletionTimestamp"):
        return False
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    if states and all("terminated" in state for state in states):
        return True  # a kubelet starts nothing in a pod that was deleted
    if metadata.get("deletionGracePeriodSeconds") == 0:  # the kubelet's last step, or a forced deletion
        return not any("running" in state for state in states)
    return not (pod.get("spec") or {}).get("nodeName")


def places(pod: Mapping[str, Any], node: str) -> list[int]:
    """Numbers of the places on that node which a pod of Grus's own names."""
    named = ((pod["metadata"].get("annotations") or {}).get(DEVICES) or "").split(",")
    numbers = (name.removeprefix(f"{node}/") for name in named if name.startswith(f"{node}/"))
    return [int(number) for number in numbers if number.isdigit() and len(number) < 6]


def own(pod: Mapping[str, Any]) -> bool:
    """Return whether Grus placed the pod."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    marked = DEVICES in (metadata.get("annotations") or {}) or RESERVATION in (metadata.get("labels") or {})
    return marked and spec.get("schedulerName") == SCHEDULER


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    return toleration["key"] == taint.get("key") and (
        exists or (toleration.get("value") or "") == (taint.get("value") or "")
    )


def _taken(node: str, pods: Iterable[Object], resource: str) -> _PodUsage:
    held: set[int] = set()
    outside: list[str] = []
    cpu = memory = count = 0
    for pod in pods:
        if terminal(pod):
            continue
        count += 1
        if own(pod):
            held.update(places(pod, node))
            continue
        metadata = pod["metadata"]
        outside += [f"pod {metadata['namespace']}/{metadata['name']}"] * asked(pod, resource)
        cpu += asked(pod, "cpu", _THOUSANDTHS)
        memory += asked(pod, "memory")
    return _PodUsage(frozenset(held), tuple(sorted(outside)), cpu, memory, count)


def _unfit(node: Object, rules: Rules) -> str:
    """Return why no new work may go there; "" if it may. (A cordon is no fault of the node.)"""
    if not ready(node):
        return "the node is not ready"
    for taint in _taints(node):
        if not tolerated(taint, rules.all_tolerations()):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"kept for others: taint {taint.get('key')}{value}:{taint['effect']}"
    return ""


def _taints(node: Object) -> Iterator[Mapping[str, Any]]:
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") in _EFFECTS and not str(taint.get("key", "")).startswith(_OWN_TAINTS):
            yield taint


def _devices(
    node: str,
    labels: Mapping[str, str],
    built_in: int,
    there: int,
    taken: _PodUsage,
    unfit: str,
    resource: str,
) -> tuple[tuple[Device, ...], int]:
    """Return the devices, and the number of GPUs in use beyond them.

    GPUs that Grus's own pods hold count as healthy, regardless of the node's report: a missing report is no
    evidence against a worker.
    """
    kind, memory = topology.gpu_type(labels, resource), topology.gpu_memory(labels)
    island = topology.joined(labels, kind)
    free = [number for number in reversed(range(built_in)) if number not in taken.held]
    outside = dict(zip(free, taken.outside, strict=False))
    rest = [number for number in free if number not in outside]
    out_of_order = set(rest) if unfit.startswith("the node") else set(rest[: built_in - there])
    numbers = sorted({*range(built_in), *taken.held})
    devices = tuple(
        Device(
            id=DeviceId(f"{node}/{number}"),
            type=kind,
            memory=memory,
            island=0 if island else number,
            speed=topology.speed(memory),
            health=Health.QUARANTINED if number in out_of_order else Health.HEALTHY,
            outside=outside.get(number) or (unfit if number in rest and number not in out_of_order else ""),
        )
        for number in numbers
    )
    return devices, len(taken.outside) - len(outside) + sum(number >= built_in for number in taken.held)


def _rest(allocatable: Mapping[str, Any], resource: str, taken: int, scale: int = 1) -> int | None:
    """Return the amount left for Grus's workers; None where the node does not report it."""
    return max(0, amount(allocatable[resource], scale) - taken) if resource in allocatable else None


def _full(allocatable: Mapping[str, Any], taken: _PodUsage) -> bool:
    """Return whether the kubelet accepts no more pods."""
    return "pods" in allocatable and taken.pods >= amount(allocatable["pods"])


def _complaints(name: str, surplus: int, built_in: int, there: int, taken: _PodUsage) -> tuple[str, ...]:
    found = []
    if surplus > 0:
        who = ", ".join(sorted({*taken.outside})) or "its workers"
        found.append(
            f"{name} has {counted(built_in, 'GPU')}, and {surplus} more than that are in use ({who})"
        )
    if there < built_in:
        found.append(f"{name} says that {built_in - there} of its {built_in} GPUs are out of order")
    return tuple(found)


def complaint(node: str, text: str, when: datetime) -> Object:
    """Return an event about a problem of a node, for `kubectl describe node`."""
    at = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"generateName": "grus.", "namespace": "default"},  # where the events of nodes are
        "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node},
        "type": "Warning",
        "reason": "UnusualGpus",
        "message": text[:1000],
        "source": {"component": "grus"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
