"""Pool as the scheduler sees it: cordons on the nodes, the default queue among the queues."""

from collections.abc import Iterable
from dataclasses import replace

from grus.model.identifiers import DeviceId, QueueName
from grus.model.jobs import Job, JobType
from grus.model.nodes import Cordon, Node
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.model.resources import GPU


def with_cordons(nodes: Iterable[Node], cordons: Iterable[Cordon]) -> tuple[Node, ...]:
    drains = {one.node: one.drain for one in cordons}
    return tuple(
        replace(node, cordoned=True, drain=drains[node.id]) if node.id in drains else node for node in nodes
    )


def size(nodes: Iterable[Node]) -> int:
    """Return the micro-GPUs of the pool, unhealthy devices included: quotas are based on all GPUs that are
    owned.
    """
    return GPU * sum(len(node.devices) for node in nodes)


def with_default(queues: Iterable[Queue], pool: int) -> tuple[Queue, ...]:
    """Return the queues and the default one, whose quota is the rest that the other top-level queues leave of
    the pool.
    """
    known = {queue.name: queue for queue in queues}
    others = [queue for queue in known.values() if queue.parent is None and queue.name != DEFAULT_QUEUE]
    rest = max(0, pool - sum(queue.quota.total for queue in others))
    default = known.get(DEFAULT_QUEUE, Queue(name=DEFAULT_QUEUE))
    limit = None if default.limit is None else max(default.limit, rest)
    quota = Quota.of(rest / GPU)
    known[DEFAULT_QUEUE] = replace(
        default, parent=None, quota=quota, reserved=min(default.reserved, rest), limit=limit
    )
    return tuple(known[name] for name in sorted(known))


def max_runtime(job: Job, queues: dict[QueueName, Queue]) -> float | None:
    """Seconds that an attempt of this job may last: the shortest that it or a queue above it allows."""
    allowed = [job.spec.max_runtime]
    queue = queues.get(job.spec.queue)
    while queue is not None:
        allowed.append(queue.max_runtime)
        if job.spec.type is JobType.DEV:
            allowed.append(queue.dev_limit)
        queue = queues.get(queue.parent) if queue.parent is not None else None
    return min((seconds for seconds in allowed if seconds is not None), default=None)


def usage(jobs: Iterable[Job]) -> dict[DeviceId, int]:
    """Micro-GPUs held of each device, summed from the recorded placements."""
    held: dict[DeviceId, int] = {}
    for job in jobs:
        for seat in job.seats:
            for device in seat.devices:
                held[device] = held.get(device, 0) + seat.share
    return held
