"""Jobs on drained nodes: those that leave, and those that run to their end."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from grus.model.identifiers import JobId, NodeId
from grus.model.jobs import Job, Phase
from grus.model.nodes import Node
from grus.scheduler.preempt.node_drain import movable_job


class DrainedJobs(NamedTuple):
    """Jobs of one drained node."""

    leave: tuple[JobId, ...]
    stay: tuple[JobId, ...]
    """Run to their end there: they save nothing, or are non-preemptible."""


def drained_jobs(
    nodes: Iterable[Node], jobs: Iterable[Job], sees: Callable[[Job], bool]
) -> Mapping[NodeId, DrainedJobs]:
    """Return the visible jobs of each drained node. `jobs` are those that hold a placement."""
    seen = [job for job in jobs if sees(job)]
    return {node.id: _of_node(node.id, seen) for node in nodes if node.drain is not None}


def _of_node(node: NodeId, jobs: Iterable[Job]) -> DrainedJobs:
    there = [job for job in jobs if any(seat.node == node for seat in job.seats)]
    leave = tuple(job.id for job in there if job.phase is Phase.PAUSING or movable_job(job))
    return DrainedJobs(leave, tuple(job.id for job in there if job.id not in leave))
