"""The pool of a cluster and the scheduler's view of it, computed here from the objects that the user may see.

It uses the functions by which the controller decides, over nodes, pods, queues and jobs as listed now. A user
who may not list those of the whole cluster sees less: only what the controller wrote on the objects
themselves.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from grus.api.wire_types.job import WhyOut
from grus.api.wire_types.pool import NodeOut, QueueOut, node_out, queue_out
from grus.cli.kubernetes.object_converter import job_of
from grus.controlplane import cluster_view
from grus.controlplane.jobs.dependencies import unfinished, waits_for
from grus.engines.kubernetes.nodes import Rules, seen
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Forbidden
from grus.kubernetes.client.resource_kinds import GPU_JOBS, GPU_QUEUES, NODES, PODS
from grus.model.errors import BadInput
from grus.model.identifiers import DeviceId, JobId
from grus.model.jobs import HOLDING, Job, PauseCause, Phase
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.scheduler.explain import Explanation, explain
from grus.scheduler.queues.queue_usage_tree import queue_states
from grus.scheduler.state.snapshot import Snapshot
from grus.store.kubernetes.queues import queue_of


@dataclass(frozen=True, slots=True)
class Outlook:
    """A look at a whole cluster."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]

    def snapshot(self) -> Snapshot:
        """Build the controller's snapshot: jobs that wait for others are held back."""
        made = Snapshot(self.nodes, self.queues)
        known = {job.id: job for job in self.jobs}
        for job in self.jobs:
            if not job.terminal:
                made.put(job, waits_for(job, unfinished(job, known.get), known.get))
        return made

    def holders(self) -> dict[DeviceId, list[tuple[JobId, int]]]:
        """Return the jobs on each device with their micro-GPUs."""
        found: dict[DeviceId, list[tuple[JobId, int]]] = {}
        for job in self.jobs:
            for seat in job.seats if job.phase in HOLDING else ():
                for device in seat.devices:
                    found.setdefault(device, []).append((job.id, seat.share))
        return found


def look(api: Api, resource: str) -> Outlook:
    """List the cluster's state; raises Forbidden for a user who may not see all of it."""
    pods: dict[str, list[Object]] = {}
    for pod in api.list(PODS)[0]:
        pods.setdefault((pod.get("spec") or {}).get("nodeName") or "", []).append(pod)
    rules = Rules(resource=resource)
    known = (seen(node, pods.get(node["metadata"]["name"], ()), rules) for node in api.list(NODES)[0])
    nodes = tuple(one.node for one in known if one is not None)
    jobs = (job_of(item) for item in api.list(GPU_JOBS)[0])
    return Outlook(
        nodes,
        cluster_view.with_default(_queues(api.list(GPU_QUEUES)[0]), cluster_view.size(nodes)),
        tuple(job for job in jobs if job is not None),
    )


def _queues(items: Iterable[Object]) -> Iterable[Queue]:
    for item in items:
        try:
            yield queue_of(item)
        except BadInput:
            continue  # its conditions say what is wrong with it


def why(api: Api, resource: str, job: Job, clock: Callable[[], float] = time.time) -> WhyOut:
    """Explain the job's state; for a waiting one, the jobs that hold the GPUs that it needs, and what would
    start it.
    """
    waits = job.phase is Phase.PENDING or (
        job.phase is Phase.PAUSED and job.paused_by is PauseCause.SCHEDULER
    )
    found = None
    if waits:
        with suppress(Forbidden):
            snapshot = look(api, resource).snapshot()
            if snapshot.job(job.id) is not None:
                found = explain(snapshot, job.id, clock())
    found = found or Explanation(job.phase.value, job.reason)
    return WhyOut.from_model(found, job=job.id, phase=job.phase, eta=None)


def nodes(api: Api, resource: str) -> list[NodeOut]:
    around = look(api, resource)
    holders = around.holders()
    return [node_out(node, holders) for node in around.nodes]


def queues(api: Api, resource: str, clock: Callable[[], float] = time.time) -> list[QueueOut]:
    """List queues with their figures if the user may see the cluster, else with what the controller wrote on
    them.
    """
    try:
        around = look(api, resource)
    except Forbidden:
        return [queue_out(queue) for queue in _queues(api.list(GPU_QUEUES)[0])]
    states = {state.name: state for state in queue_states(around.snapshot(), clock())}
    return [queue_out(queue, states.get(queue.name)) for queue in around.queues]
