"""This pool's own history as a trace: jobs of the store, or as the server shows them, with what they ran.

How long a job worked is the sum of its times between `running` and whatever ended that; without its events it
is the time of its last attempt. Jobs that never ran or still do are left out. An elastic job's work counts as
done at its smallest size, since sizes are not kept with the job: a lower bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from grus.api.wire import EventOut, JobOut, parse_gpu
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import Job, JobType, Launch
from grus.model.ports import Event
from grus.model.resources import GPU, Range, Request
from grus.simulation.traces import numbered
from grus.simulation.work import Work

GOES_ON = frozenset({"running", "resized", "scaled", "released"})
"""Events after which a running job still runs."""

Happened = Sequence[tuple[float, str]]
"""Of one job, in order: when, and which kind of event."""


def from_jobs(jobs: Iterable[Job], events: Iterable[Event] = ()) -> list[Work]:
    """Jobs of a store that have ended, with their specs as they were."""
    happened = _by_job((event.job, event.at, event.kind) for event in events)
    works = []
    for job in jobs:
        ran = seconds_run(happened.get(job.id, ()), job.started_at, job.ended_at)
        if job.terminal and ran > 0.0:
            works.append(work_of(job, ran))
    return numbered(works)


def work_of(job: Job, ran: float) -> Work:
    """A job of the past as one that might come again."""
    request = job.spec.request
    role = request.elastic
    return Work(
        id=job.id,
        submit=job.submitted_at,
        duration=ran,
        gpus=gpus_asked(request),
        size=None if role is None else role.replicas,
        queue=job.spec.queue,
        user=job.user,
        priority=job.spec.priority,
        type=job.spec.type,
        one_node=request.one_node,
        save_every=job.spec.checkpoint.every,
        grace=job.spec.checkpoint.grace,
        max_runtime=job.spec.max_runtime,
        spec=replace(job.spec, after=()),
    )


def gpus_asked(request: Request) -> float:
    """GPUs of the smallest gang; a slice by memory counts as half of one."""
    total = 0.0
    for role in request.roles:
        each = role.replica.gpus + role.replica.share / GPU + (0.5 if role.replica.gpu_memory else 0.0)
        total += role.replicas.low * each
    return total or 1 / GPU


def from_shown(jobs: Iterable[JobOut], events: Iterable[EventOut] = ()) -> list[Work]:
    """Ended jobs as a server shows them. Gangs of several roles are left out: their text is for people."""
    happened = _by_job((event.job, _seconds(event.at), event.kind) for event in events)
    works = []
    for job in jobs:
        ran = seconds_run(happened.get(job.id, ()), _maybe(job.started_at), _maybe(job.ended_at))
        if job.ended_at is None or ran <= 0.0:
            continue
        try:
            ask = parse_gpu(job.request)
        except ValueError:
            continue
        size = Range(ask.count.low, ask.count.high)
        works.append(
            Work(
                id=JobId(job.id),
                submit=_seconds(job.submitted_at),
                duration=ran,
                gpus=ask.share / GPU or (0.5 if ask.memory else float(size.low)),
                size=None if size.rigid else size,
                queue=QueueName(job.queue),
                user=UserName(job.user),
                priority=job.priority,
                type=JobType(job.type),
                one_node=job.launch == Launch.ONCE,
            )
        )
    return numbered(works)


def _by_job(events: Iterable[tuple[str | None, float, str]]) -> Mapping[str, Happened]:
    found: dict[str, list[tuple[float, str]]] = {}
    for job, at, kind in events:
        if job is not None:
            found.setdefault(job, []).append((at, kind))
    return found


def seconds_run(happened: Happened, started: float | None, ended: float | None) -> float:
    """Seconds in which the job worked."""
    total, since = 0.0, None
    for at, kind in happened:
        if since is None and kind == "running":
            since = at
        elif since is not None and kind not in GOES_ON:
            total, since = total + at - since, None
    if total > 0.0:
        return total
    return max(0.0, ended - started) if started is not None and ended is not None else 0.0


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _maybe(text: str | None) -> float | None:
    return _seconds(text) if text else None
