"""Where jobs answer requests: development sessions and served models. Read when asked for, and never kept.

A worker says in its report where it listens and which secret a request must bring. Both are a job's word: an
address counts only if it is on the host that Grus has given the worker, so that nobody makes the server talk
to other machines. The secret goes from here to whoever forwards a request, and nowhere else: not into the
store, an event, a log or an answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from grus.api import reports
from grus.controlplane import access, ends
from grus.controlplane.ends import Statuses
from grus.controlplane.launching import HOST, Member, members
from grus.model.errors import NotAllowed
from grus.model.identifiers import WorkerId
from grus.model.jobs import Job, JobType, Phase
from grus.model.ports import User

ANSWERING = frozenset({JobType.DEV, JobType.SERVE})
"""Types of jobs to which requests are forwarded; what others say of an address is not listened to."""
Report = Callable[[WorkerId], str]
"""The last line that a worker has reported."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A worker that is ready for requests."""

    worker: WorkerId
    address: str
    """Host and port, on this machine."""
    secret: str = field(repr=False)
    """Brought by each request as `Authorization: token SECRET`."""
    used_at: float | None = None
    """When it was last at work for somebody, as it says; None if it does not say."""


def endpoints(job: Job, statuses: Statuses, report: Report) -> tuple[Endpoint, ...]:
    """The workers of a running job that are ready, in the order of their ranks."""
    if job.spec.type not in ANSWERING or job.phase is not Phase.RUNNING:
        return ()
    there = [one for one in members(job) if not one.leaving and ends.alive(statuses.get(one.id))]
    found = [_of(member, report(member.id)) for member in there]
    return tuple(one for one in found if one is not None)


def _of(member: Member, line: str) -> Endpoint | None:
    place = reports.read(line).place
    if place is None or place.address.rpartition(":")[0] != HOST:
        return None
    return Endpoint(member.id, place.address, place.secret, place.used_at)


def require_use(user: User, job: Job) -> None:
    """Who sees a served model may ask it; a session is its owner's alone, whatever role others have: what is
    done there is done in the owner's name."""
    if job.spec.type is JobType.DEV and job.user != user.name:
        raise NotAllowed(f"session {job.id} belongs to {job.user}; nobody else may open it")
    if job.spec.type is JobType.DEV:
        access.require_member(user, "open sessions")
