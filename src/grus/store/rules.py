"""Rules of every store: those that a write of a job must pass, one function each, and the order of listings.

Pure. The in-memory store and the SQLite store use the same error messages, so that users read the same ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from grus.model.errors import BadInput, Conflict, Fenced, Mistake, NotFound, StaleVersion
from grus.model.identifiers import JobId
from grus.model.interfaces import Collection, NewJob
from grus.model.jobs import NEXT, Job, Phase, Spec

T = TypeVar("T")


def check_epoch(given: int | None, current: int) -> None:
    """Fence writers: a caller that acts for an ended leader term must stop."""
    if given is not None and given < current:
        raise Fenced(
            f"epoch {given} has ended, epoch {current} has begun: a newer control plane owns this state"
        )


def check_version(job: JobId, given: int, stored: int) -> None:
    if given != stored:
        raise StaleVersion(
            f"job {job} changed meanwhile: version {given} was read, {stored} is stored; read again and retry"
        )


def check_phase(job: JobId, before: Phase, after: Phase) -> None:
    if after != before and after not in NEXT[before]:
        raise Conflict(f"job {job} is {before}; it cannot become {after}")


def check_identity(job: JobId, same: bool) -> None:
    """Check that a job's user, queue and time of submission never change."""
    if not same:
        raise Conflict(f"job {job}: user, queue and time of submission never change")


def identity(job: Job) -> tuple[str, str, float]:
    return job.user, job.spec.queue, job.submitted_at


def check_new(job: JobId, exists: bool) -> None:
    if exists:
        raise Conflict(f"there is a job {job} already")


def check_apart(new: Sequence[NewJob]) -> None:
    """Check that jobs created together can be checked independently: none of them repeats another."""
    if not new:
        raise BadInput([Mistake("jobs", "must be one or more", "0")])
    keys = [(one.job.user, one.key) for one in new if one.key is not None]
    if len({one.job.id for one in new}) < len(new) or len(set(keys)) < len(keys):
        raise Conflict("jobs that are created together need an id and a key each")


def check_key(key: str, first: Job, again: Job) -> None:
    """Check that a key is used again only for exactly the same request, whichever job came of it."""
    if _submitted(first) != _submitted(again):
        raise Conflict(f"the key {key!r} was used before for another request; use a new key for a new job")


def _submitted(job: Job) -> Spec:
    return replace(job.spec, request=job.asked)


def no_job(job: JobId) -> NotFound:
    return NotFound(f"there is no job {job}")


def not_there(collection: Collection[Any], key: Sequence[str]) -> NotFound:
    return NotFound(collection.missing.format(*key))


def matching(
    jobs: Iterable[Job],
    phases: Sequence[Phase] | None,
    queue: str | None,
    user: str | None,
    after: tuple[float, JobId] | None,
) -> list[Job]:
    """Return those of the jobs that `Store.jobs` lists, in its order."""
    found = [
        job
        for job in jobs
        if (phases is None or job.phase in phases)
        and (queue is None or job.spec.queue == queue)
        and (user is None or job.user == user)
        and (after is None or (job.submitted_at, job.id) < after)
    ]
    return sorted(found, key=lambda job: (job.submitted_at, job.id), reverse=True)


def listed(
    collection: Collection[T],
    values: Iterable[T],
    limit: int | None,
    after: tuple[object, ...] | None,
    fields: Mapping[str, str | None],
) -> list[T]:
    """Return a page of values that are in memory, as `Store.find` does."""
    wanted = [(name, value) for name, value in fields.items() if value is not None]
    if any(not value and name in collection.optional for name, value in wanted):
        return []
    found = [one for one in values if all(getattr(one, name) == value for name, value in wanted)]
    found.sort(key=collection.place_of, reverse=collection.newest_first)
    if after is not None and collection.newest_first:
        found = [one for one in found if collection.place_of(one) < after]
    elif after is not None:
        found = [one for one in found if collection.place_of(one) > after]
    return found[:limit]
