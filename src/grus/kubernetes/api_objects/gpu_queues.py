"""GpuQueues as queues of the core. Pure.

What counts is not an object's spec but what of it was last found good (`status.accepted`): an edit that makes
no sense changes nothing but the object's conditions.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from grus.api.parsing.validation_errors import read
from grus.api.wire_types.pool import QueueIn, to_queue
from grus.kubernetes.client.resource_kinds import Object
from grus.model.errors import BadInput
from grus.model.identifiers import QueueName
from grus.model.queues import Queue

NAMESPACES = "namespaces"
"""The one field of the spec that the core does not know."""


def read_queue(name: str, spec: Mapping[str, Any]) -> Queue:
    """Return the queue of this spec; raises BadInput with all errors."""
    said = {key: value for key, value in spec.items() if key != NAMESPACES and value is not None}
    return to_queue(name, read(QueueIn, said, whole="queue"))


def accepted_spec(found: Object) -> dict[str, Any] | None:
    """Return the spec in force of this object; None if no version was ever accepted."""
    kept = (found.get("status") or {}).get("accepted")
    return dict(kept) if isinstance(kept, Mapping) else None


def accepted_queues(objects: Iterable[Object]) -> list[Queue]:
    """Return the queues in force, by name.

    A queue whose parent is gone is not in force: its quota is part of nothing.
    """
    found: dict[QueueName, Queue] = {}
    for one in objects:
        spec = accepted_spec(one)
        if spec is None:
            continue
        try:
            queue = read_queue(one["metadata"]["name"], spec)
        except BadInput:
            continue  # of another version of Grus
        found[queue.name] = queue
    return rooted(found)


def rooted(queues: Mapping[QueueName, Queue]) -> list[Queue]:
    """Return the queues whose chain of parents is complete, by name."""
    left = dict(queues)
    while True:
        lost = [
            queue.name for queue in left.values() if queue.parent is not None and queue.parent not in left
        ]
        if not lost:
            return [left[name] for name in sorted(left)]
        for name in lost:
            del left[name]
