"""Endpoints of jobs that answer requests: development sessions and served models. Read on request and never
stored.

A worker reports the address where it listens and the secret that a request must carry. Both are claims of the
job: an address counts only if it is on the host that Grus gave the worker, so that no job can make the server
connect to other machines. The secret is passed only to the component that forwards a request: never to the
store, an event, a log or a response.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from grus.controlplane.security import rbac
from grus.controlplane.workers import exit_status
from grus.controlplane.workers.exit_status import Statuses
from grus.controlplane.workers.worker_launch_spec import HOST, Member, members
from grus.model.errors import NotAllowed
from grus.model.identifiers import WorkerId
from grus.model.interfaces import User
from grus.model.jobs import Job, JobType, Phase
from grus.model.worker_reports import report_lines

ANSWERING = frozenset({JobType.DEV, JobType.SERVE})
"""Types of jobs to which requests are forwarded; addresses reported by other jobs are ignored."""
Report = Callable[[WorkerId], str]
"""The last line that a worker has reported."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A worker that is ready for requests."""

    worker: WorkerId
    address: str
    """Host and port, on this machine."""
    secret: str = field(repr=False)
    """Secret that each request carries as `Authorization: token SECRET`."""
    used_at: float | None = None
    """Time of the last use by a person, as the worker reports it; None if it does not report it."""


def endpoints(job: Job, statuses: Statuses, report: Report) -> tuple[Endpoint, ...]:
    """The workers of a running job that are ready, in the order of their ranks."""
    if job.spec.type not in ANSWERING or job.phase is not Phase.RUNNING:
        return ()
    there = [one for one in members(job) if not one.leaving and exit_status.alive(statuses.get(one.id))]
    found = [_of(member, report(member.id)) for member in there]
    return tuple(one for one in found if one is not None)


def _of(member: Member, line: str) -> Endpoint | None:
    place = report_lines.read(line).place
    if place is None or place.address.rpartition(":")[0] != HOST:
        return None
    return Endpoint(member.id, place.address, place.secret, place.used_at)


def require_use(user: User, job: Job) -> None:
    """Require access: users who see a served model may query it; a session is its owner's alone, even if
    others have a higher role, because actions in it are done in the owner's name.
    """
    if job.spec.type is JobType.DEV and job.user != user.name:
        raise NotAllowed(f"session {job.id} belongs to {job.user}; nobody else may open it")
    if job.spec.type is JobType.DEV:
        rbac.require_member(user, "open sessions")
