"""Work of an ended job, from its record and its events.

The seconds that a job worked are the sum of its times between `running` and the event that ended that;
without its events they are the time of its last attempt. The work of an elastic job is the time that it would
have taken at its smallest size: time at a larger one counts for more, by its speed-up. If its events do not
contain its size, it counts as done at the smallest, a lower bound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from grus.model.jobs import TERMINAL, Job
from grus.model.resources import GPU, Request
from grus.simulator.workload.job_work import Linear, Speedup, TraceJob

USUAL = Linear()
"""The speed-up of a job of which nothing better is known."""
RUNNING = "running"
STOPS = frozenset(
    {"starting", "pausing", "paused", "stopping", "ending", "retrying", "requeued", "enlarged"}
) | frozenset(TERMINAL)
"""Events after which a job does not run any more."""


class HistoryEvent(NamedTuple):
    """An event, as far as it matters here."""

    at: float
    kind: str
    gpus: float | None = None
    """GPUs that compute together from then on; None where that is not known."""


Happened = Sequence[HistoryEvent]
"""Events of one job, in order."""


def work_of(job: Job, happened: Happened, speedup: Speedup | None = None) -> TraceJob:
    """A job of the past as one that might come again; `speedup` is its own, where that is known."""
    speedup = speedup or USUAL
    ran = seconds_run(happened, job.started_at, job.ended_at)
    made = lasting(job, ran)
    return replace(made, duration=work_done(made, happened, ran, speedup), speedup=speedup)


def lasting(job: Job, ran: float) -> TraceJob:
    """A job that might come with so many seconds of work at the size that it asks for."""
    request = job.spec.request
    role = request.elastic
    return TraceJob(
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


def seconds_run(happened: Happened, started: float | None, ended: float | None) -> float:
    """Seconds in which the job worked."""
    total = sum(seconds for seconds, _ in stretches(happened))
    if total > 0.0:
        return total
    return max(0.0, ended - started) if started is not None and ended is not None else 0.0


def work_done(work: TraceJob, happened: Happened, ran: float, speedup: Speedup = USUAL) -> float:
    """Return the seconds that its work takes at its requested size: `ran`, except for an elastic job that had
    other sizes. A time on n GPUs is that time multiplied by the speed-up of n over the requested size.
    """
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
