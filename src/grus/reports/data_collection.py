"""Gathering the past for a report: from the services, with one user's permissions. Reads only; may take a
while.

The result is a `PoolHistory`, a value: everything that follows from it is computed without further requests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from grus.controlplane.facade.services import Services
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import Event, User
from grus.model.jobs import Job
from grus.model.profiles import JobProfile, ProfiledRun
from grus.model.resources import GPU, Request
from grus.reports.history_types import NO_CURVES, JobPast, PoolHistory
from grus.reports.job_timeline import spans
from grus.simulator.workload.job_history import gpus_asked
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Series

PAGE = 10_000
"""Events read at once."""
MINUTE, TENS = 60.0, 600.0
LONGEST_BY_MINUTE = 14 * 86_400.0
"""Seconds; the pool's past further back is kept in steps of ten minutes."""
OF_THE_POOL = (Measure.HELD, Measure.DEMAND, Measure.CAPACITY, Measure.STRANDED, Measure.UTILISATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Scope of a report."""

    since: float
    until: float
    job: JobId | None = None
    queue: QueueName | None = None


def gather(services: Services, user: User, scope: Scope) -> PoolHistory:
    """Everything that this user may know of the time between two moments. Raises NotFound."""
    every = _jobs(services, user, scope)
    pool = _pool(services, scope)
    since = _known_since(every.oldest, pool, scope)
    there = [job for job in every.seen if _there(job, since, scope.until)]
    events = _events(services, user, there, scope)
    ends = {job.id: job.ended_at for job in every.seen}
    runs = services.jobs.profiled_runs()
    found = [
        _life(job, events.get(job.id, ()), runs.get(job.id), services, user, scope.until, ends)
        for job in sorted(there, key=lambda job: (job.submitted_at, job.id))
    ]
    return PoolHistory(
        since=since,
        until=scope.until,
        jobs=tuple(_with_series(services, found, since, scope.until)),
        whole=every.whole,
        nodes=services.pool.nodes(user),
        queues=tuple(services.queues.settings(user)),
        pool=pool,
        types=_types(services, user, found),
        prices=services.settings.prices,
        notes=tuple(_notes(services, every.whole, scope, since)),
    )


# ---------------------------------------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True)
class _Every:
    seen: list[Job]
    whole: bool
    oldest: float | None
    """Submission time of the first job on record, even if it is outside the scope."""


def _jobs(services: Services, user: User, scope: Scope) -> _Every:
    if scope.job is not None:
        job = services.visible.get(user, scope.job)
        return _Every([job], False, job.submitted_at)
    if scope.queue is not None and all(one.name != scope.queue for one in services.queues.settings(user)):
        raise NotFound(f"there is no queue {scope.queue}")
    seen, whole, oldest = [], True, None
    for job in chain.from_iterable(services.jobs.every()):
        oldest = job.submitted_at if oldest is None else min(oldest, job.submitted_at)
        asked = scope.queue is None or job.spec.queue == scope.queue
        if asked and services.visible.sees(user, job.user, job.spec.queue):
            seen.append(job)
        else:
            whole = False
    return _Every(seen, whole, oldest)


def _there(job: Job, since: float, until: float) -> bool:
    return job.submitted_at < until and (job.ended_at is None or job.ended_at > since)


def _known_since(oldest: float | None, pool: Mapping[Measure, Series], scope: Scope) -> float:
    """The beginning of what is looked at, or of what is known if that is later."""
    known = [] if oldest is None else [oldest]
    there = pool.get(Measure.CAPACITY)
    if there is not None:
        first = int(np.argmax(~np.isnan(there.values)))
        known.append(there.start + (first + 1) * there.step)  # somewhere in that step it was counted first
    return min(scope.until, max(scope.since, min(known))) if known else scope.since


def _events(services: Services, user: User, jobs: list[Job], scope: Scope) -> dict[JobId, list[Event]]:
    wanted: dict[JobId, list[Event]] = {job.id: [] for job in jobs}
    after = 0
    while wanted:
        page = services.jobs.events(user, after=after, job=scope.job, limit=PAGE)
        for event in page:
            if event.job is not None and event.job in wanted:
                wanted[event.job].append(event)
        if len(page) < PAGE:
            break
        after = page[-1].seq
    return wanted


def _life(
    job: Job,
    events: Iterable[Event],
    kept: tuple[JobProfile, ProfiledRun] | None,
    services: Services,
    user: User,
    until: float,
    ends: Mapping[JobId, float | None],
) -> JobPast:
    def ended(other: str) -> float | None:
        if JobId(other) in ends:
            return ends[JobId(other)]
        try:
            return services.visible.get(user, JobId(other)).ended_at
        except NotFound:
            return job.submitted_at  # it is long gone

    profile, run = kept or (None, None)
    asked = gpus_asked(job.spec.request)
    known = tuple(events)
    return JobPast(
        job=job,
        spans=spans(job, known, asked, until, ended),
        events=known,
        asked=asked,
        most=_most(job.spec.request, asked),
        curves=services.outputs.curves_of(job) if job.first_started_at is not None else NO_CURVES,
        run=run,
        fingerprint="" if profile is None else profile.fingerprint,
        speeds=() if profile is None else profile.speeds,
        stall=None if profile is None else profile.stall,
        boot=None if profile is None else profile.boot,
    )


def _most(request: Request, asked: float) -> float:
    role = request.elastic
    if role is None:
        return asked
    each = role.replica.gpus + role.replica.share / GPU
    return asked + (request.allowed[-1] - role.replicas.low) * each


# ----------------------------------------------------------------------------------------- what was measured


def _pool(services: Services, scope: Scope) -> dict[Measure, Series]:
    if not services.watched:
        return {}
    step = MINUTE if scope.until - scope.since <= LONGEST_BY_MINUTE else TENS
    found = {
        measure: services.telemetry.of_pool(measure, scope.since, scope.until, step)
        for measure in OF_THE_POOL
    }
    return {measure: series for measure, series in found.items() if not np.isnan(series.values).all()}


def _with_series(services: Services, found: list[JobPast], since: float, until: float) -> Iterable[JobPast]:
    if not services.watched:
        return found
    times = {
        one.id: (max(since, one.held[0].start), min(until, one.held[-1].end))
        for one in found
        if one.held and one.held[-1].end > since
    }
    measured = services.telemetry.of_jobs(times, Measure.UTILISATION)
    return [replace(one, utilisation=measured.get(one.id)) for one in found]


def _types(services: Services, user: User, found: list[JobPast]) -> dict[JobId, str]:
    of_device = {device.id: device.type for node in services.pool.nodes(user) for device in node.devices}
    only = set(of_device.values()) if len(set(of_device.values())) == 1 else set[str]()
    types = {}
    for one in found:
        known = {use.type for use in one.run.uses if use.type} if one.run is not None else set()
        held = {of_device[id_] for seat in one.job.seats for id_ in seat.devices if id_ in of_device}
        kinds = known or held or only
        if len(kinds) == 1:
            types[one.id] = next(iter(kinds))
    return types


def _notes(services: Services, whole: bool, scope: Scope, since: float) -> Iterable[str]:
    if since > scope.since:
        yield "Nothing is on record from before the beginning that is shown: the server is younger than that."
    if not services.watched:
        yield "This server records no telemetry: nothing is known of how busy GPUs were."
    if scope.job is not None or scope.queue is not None:
        yield "Of a job or a queue alone, nothing is said of GPUs that stood free: that depends on all jobs."
    elif not whole:
        yield "Jobs that you may not see are left out, and with them what depends on all jobs of the pool."
