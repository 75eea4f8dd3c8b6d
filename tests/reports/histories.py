"""Histories that real servers recorded on virtual GPUs, as fixtures: jobs, events, pool and quotas.

`demo` is `grus demo` (a preemption, a killed worker, a training that people scaled), `sequence` twelve jobs
one after the other, `actions` jobs with a pause by a person, a failure, an elastic job and slices.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import Event
from grus.model.jobs import Job
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.job_timeline import spans
from grus.simulator.cluster_spec import parse_nodes
from grus.simulator.workload.job_history import gpus_asked

FOLDER = Path(__file__).parent.parent / "fixtures" / "histories"
NAMES = ("demo", "sequence", "actions")


@dataclass(frozen=True, slots=True)
class Recorded:
    pool: str
    quotas: dict[str, float]
    jobs: tuple[Job, ...]
    events: tuple[Event, ...]


def recorded(name: str) -> Recorded:
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Recorded)


def past_of(found: Recorded) -> PoolHistory:
    """History as the server that recorded it gathers it."""
    until = max(event.at for event in found.events) + 60.0
    ends = {job.id: job.ended_at for job in found.jobs}
    jobs = []
    for job in sorted(found.jobs, key=lambda job: (job.submitted_at, job.id)):
        events = tuple(event for event in found.events if event.job == job.id)
        asked = gpus_asked(job.spec.request)
        lived = spans(job, events, asked, until, lambda other: ends.get(JobId(other)))
        jobs.append(JobPast(job=job, spans=lived, events=events, asked=asked, most=asked))
    queues = [Queue(name=QueueName(name), quota=Quota.of(gpus)) for name, gpus in found.quotas.items()]
    return PoolHistory(
        since=min(job.submitted_at for job in found.jobs),
        until=until,
        jobs=tuple(jobs),
        nodes=parse_nodes(found.pool),
        queues=(*queues, Queue(name=DEFAULT_QUEUE, quota=Quota.of(0))),
    )
