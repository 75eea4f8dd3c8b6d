"""Namespace rules: which namespaces may use a queue. Pure.

A queue without a rule of its own has that of the queue above it; without any up to the top it is open to all.
A rule combines names and labels: one of the names, or all of the labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.api_objects.gpu_queues import accepted_spec
from grus.model.errors import Mistake
from grus.model.identifiers import QueueName


@dataclass(frozen=True, slots=True)
class Openness:
    """Namespace rule of a queue."""

    names: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()
    parent: QueueName | None = None
    going: bool = False
    """True if the queue was deleted: it accepts nothing new."""

    @property
    def silent(self) -> bool:
        return not (self.names or self.labels)


def openness(queue: Mapping[str, Any]) -> Openness:
    """Return the namespace rule of a GpuQueue, as last accepted."""
    spec = accepted_spec(dict(queue)) or {}
    said = spec.get("namespaces") or {}
    return Openness(
        names=frozenset(map(str, said.get("names") or ())),
        labels=tuple(sorted((str(key), str(value)) for key, value in (said.get("labels") or {}).items())),
        parent=QueueName(spec["parent"]) if spec.get("parent") else None,
        going="deletionTimestamp" in queue.get("metadata", {}),
    )


def refused(
    queue: QueueName, namespace: str, labels: Mapping[str, str], known: Mapping[QueueName, Openness]
) -> Mistake | None:
    """Why this namespace may not use the queue; None if it may, or if there is no such queue."""
    found = known.get(queue)
    if found is not None and found.going:
        return Mistake("queue", "is being deleted and takes no new jobs", queue)
    seen: set[QueueName] = set()
    at: QueueName | None = queue
    while at is not None and at not in seen:
        seen.add(at)
        rule = known.get(at)
        if rule is None:
            return None
        if not rule.silent:
            return None if _open_to(rule, namespace, labels) else _sentence(queue, at, namespace, rule)
        at = rule.parent
    return None


def _open_to(rule: Openness, namespace: str, labels: Mapping[str, str]) -> bool:
    if namespace in rule.names:
        return True
    return bool(rule.labels) and all(labels.get(key) == value for key, value in rule.labels)


def _sentence(queue: QueueName, by: QueueName, namespace: str, rule: Openness) -> Mistake:
    ways = []
    if rule.names:
        ways.append(f"to {', '.join(sorted(rule.names))}")
    if rule.labels:
        ways.append(f"to those labelled {', '.join(f'{key}={value}' for key, value in rule.labels)}")
    where = "" if by == queue else f" (by its parent {by})"
    text = f"is not open to namespace {namespace}{where}; it is open {' and '.join(ways)}"
    return Mistake("queue", text, queue)
