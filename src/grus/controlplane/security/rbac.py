"""Access rules: pure functions over users, queues and jobs that decide who may do what; callers raise the
resulting errors.

A viewer reads, a member also submits and acts on own jobs, an administrator may do everything. A queue with
members belongs to them alone: other users do not see its jobs. A queue without members inherits those of its
parent queue; if no queue up to the root has members, it is open to all.
"""

from collections.abc import Mapping
from typing import NamedTuple

from grus.model.errors import NotAllowed, NotFound
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import AccessRole, User
from grus.model.jobs import Job
from grus.model.queues import Queue

Queues = Mapping[QueueName, Queue]


class Owner(NamedTuple):
    """Owner of a job: user and queue, which decide who may see the job; never changes during the life of a
    job.
    """

    user: UserName
    queue: QueueName

    @classmethod
    def of(cls, job: Job) -> "Owner":
        return cls(job.user, job.spec.queue)


def is_admin(user: User) -> bool:
    return user.role is AccessRole.ADMIN


def unix_user(name: UserName, user: User | None, as_submitters: bool) -> str:
    """Return the Unix user that runs the jobs of this user; empty for the server's own Unix user."""
    if user is not None and (user.unix_user or is_admin(user)):
        return user.unix_user
    # A missing Unix user must not mean root: this is no valid Unix name, so the start fails with an error.
    return f"of {name}" if as_submitters else ""


def members_of(queue: QueueName, queues: Queues) -> tuple[UserName, ...]:
    """Return the members of the queue, its own or inherited; empty if it is open."""
    found = queues.get(queue)
    while found is not None:
        if found.members:
            return found.members
        found = queues.get(found.parent) if found.parent is not None else None
    return ()


def sees_queue(user: User, queue: QueueName, queues: Queues) -> bool:
    if is_admin(user):
        return True
    if queue not in queues:
        return False
    members = members_of(queue, queues)
    return not members or user.name in members


def sees_job(user: User, owner: Owner, queues: Queues) -> bool:
    return is_admin(user) or owner.user == user.name or sees_queue(user, owner.queue, queues)


def require_admin(user: User, what: str) -> None:
    if not is_admin(user):
        raise NotAllowed(f"only an administrator may {what}; {user.name} has the role {user.role.value}")


def require_member(user: User, what: str) -> None:
    if user.role is AccessRole.VIEWER:
        raise NotAllowed(f"a viewer may not {what}; ask an administrator for the role of member")


def require_sight(user: User, id_: JobId, owner: Owner, queues: Queues) -> None:
    """Raise NotFound, as for a job that does not exist, so that other users do not learn that it exists."""
    if not sees_job(user, owner, queues):
        raise NotFound(f"there is no job {id_}")


def require_own(user: User, job: Job, what: str) -> None:
    require_member(user, f"{what} jobs")
    if not is_admin(user) and job.user != user.name:
        raise NotAllowed(
            f"job {job.id} belongs to {job.user}; only {job.user} or an administrator may {what} it"
        )


def require_queue(user: User, queue: QueueName, queues: Queues) -> None:
    """Require that this user may submit to the queue. Raises NotAllowed."""
    if not is_admin(user) and not sees_queue(user, queue, queues):
        raise NotAllowed(f"{user.name} is not a member of queue {queue}; ask an administrator to be added")
