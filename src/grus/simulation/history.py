"""This pool's own history as a trace: jobs of the store, or as the server shows them, with what they ran.

How long a job worked is the sum of its times between `running` and whatever ended that; without its events it
is the time of its last attempt. Jobs that never ran or still do are left out. The work of an elastic job is
what it would have taken at its smallest size: time at a larger one counts for more, by its speed-up. Where
its events do not say how large it was, it counts as done at the smallest, a lower bound.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from grus.api.wire import EventOut, JobOut, parse_gpu
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import TERMINAL, Job, JobType, Launch
from grus.model.ports import Event
from grus.model.resources import GPU, Range, Request
from grus.simulation.traces import numbered
from grus.simulation.work import Linear, Speedup, Work

USUAL = Linear()
"""The speed-up of a job of which nothing better is known."""
RUNNING = "running"
STOPS = frozenset(
    {"starting", "pausing", "paused", "stopping", "ending", "retrying", "requeued", "enlarged"}
) | frozenset(TERMINAL)
"""Events after which a job does not run any more."""


class Happening(NamedTuple):
    """An event, as far as it matters here."""

    at: float
    kind: str
    gpus: float | None = None
    """GPUs that compute together from then on; None where that is not known."""


Happened = Sequence[Happening]
"""Of one job, in order."""


def from_jobs(jobs: Iterable[Job], events: Iterable[Event] = ()) -> list[Work]:
    """Jobs of a store that have ended, with their specs as they were."""
    happened = _by_job(
        (event.job, Happening(event.at, event.kind, None if event.working is None else event.working / GPU))
        for event in events
    )
    works = [
        work_of(job, happened.get(job.id, ()))
        for job in jobs
        if job.terminal and seconds_run(happened.get(job.id, ()), job.started_at, job.ended_at) > 0.0
    ]
    return numbered(works)


def work_of(job: Job, happened: Happened, speedup: Speedup | None = None) -> Work:
    """A job of the past as one that might come again; `speedup` is its own, where that is known."""
    speedup = speedup or USUAL
    ran = seconds_run(happened, job.started_at, job.ended_at)
    made = lasting(job, ran)
    return replace(made, duration=work_done(made, happened, ran, speedup), speedup=speedup)


def lasting(job: Job, ran: float) -> Work:
    """A job that might come with so many seconds of work at the size that it asks for."""
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


def from_shown(
    jobs: Iterable[JobOut], events: Iterable[EventOut] = (), speedups: Mapping[str, Speedup] | None = None
) -> list[Work]:
    """Ended jobs as a server shows them; `speedups` are known ones, by job. Gangs of several roles are left
    out: their text is for people."""
    return numbered(works_shown(jobs, events, speedups))


def works_shown(
    jobs: Iterable[JobOut], events: Iterable[EventOut], speedups: Mapping[str, Speedup] | None = None
) -> list[Work]:
    """The same under the jobs' own ids."""
    happened = _by_job(
        (event.job, Happening(_seconds(event.at), event.kind, event.working)) for event in events
    )
    works = []
    for job in jobs:
        ran = seconds_run(happened.get(job.id, ()), _maybe(job.started_at), _maybe(job.ended_at))
        if job.ended_at is None or ran <= 0.0:
            continue
        try:
            ask = parse_gpu(job.unscaled or job.request)
        except ValueError:
            continue
        size = Range(ask.count.low, ask.count.high)
        work = Work(
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
        speedup = (speedups or {}).get(job.id, USUAL)
        done = work_done(work, happened.get(job.id, ()), ran, speedup)
        works.append(replace(work, duration=done, speedup=speedup))
    return works


def _by_job(events: Iterable[tuple[str | None, Happening]]) -> Mapping[str, Happened]:
    found: dict[str, list[Happening]] = {}
    for job, happening in events:
        if job is not None:
            found.setdefault(job, []).append(happening)
    return found


def seconds_run(happened: Happened, started: float | None, ended: float | None) -> float:
    """Seconds in which the job worked."""
    total = sum(seconds for seconds, _ in stretches(happened))
    if total > 0.0:
        return total
    return max(0.0, ended - started) if started is not None and ended is not None else 0.0


def work_done(work: Work, happened: Happened, ran: float, speedup: Speedup = USUAL) -> float:
    """Seconds that what it did takes at the size that it asks for: `ran`, but for an elastic job that had
    other sizes. So long a time on n GPUs is that times the speed-up of n against the size asked for."""
    known = list(stretches(happened))
    if work.size is None or not known:
        return ran
    asked = speedup(work.gpus)
    return sum(seconds * (speedup(gpus) / asked if gpus else 1.0) for seconds, gpus in known)


def stretches(happened: Happened) -> Iterator[tuple[float, float | None]]:
    """Seconds in which it worked, and with how many GPUs, piece by piece."""
    since: float | None = None
    gpus: float | None = None
    for happening in happened:
        if since is not None:
            yield happening.at - since, gpus
            since = None if happening.kind in STOPS else happening.at
        elif happening.kind == RUNNING:
            since = happening.at
        gpus = happening.gpus


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _maybe(text: str | None) -> float | None:
    return _seconds(text) if text else None
