"""Who may do what. Pure rules over users, queues and jobs; whoever asks raises what comes out of them.

A viewer looks, a member also submits and acts on own jobs, an administrator does everything. A queue with
members is theirs alone: to others its jobs do not exist. A queue without members has those of the queue above
it; without any up to the top it is open to all.
"""

from collections.abc import Mapping
from typing import NamedTuple

from grus.model.errors import NotAllowed, NotFound
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import Job
from grus.model.ports import AccessRole, User
from grus.model.queues import Queue

Queues = Mapping[QueueName, Queue]


class Owner(NamedTuple):
    """What of a job decides who may see it; never changes in the life of a job."""

    user: UserName
    queue: QueueName

    @classmethod
    def of(cls, job: Job) -> "Owner":
        return cls(job.user, job.spec.queue)


def is_admin(user: User) -> bool:
    return user.role is AccessRole.ADMIN


def unix_user(name: UserName, user: User | None, as_submitters: bool) -> str:
    """Whom jobs of this name run as; empty for the server's own user."""
    if user is not None and (user.unix_user or is_admin(user)):
        return user.unix_user
    # Nobody is root by being forgotten: this is no Unix user's name, and the start fails saying so.
    return f"of {name}" if as_submitters else ""


def members_of(queue: QueueName, queues: Queues) -> tuple[UserName, ...]:
    """Whose queue it is; empty if it is open."""
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
    """Raises NotFound, as for a job that is not there: that it exists is nobody else's business."""
    if not sees_job(user, owner, queues):
        raise NotFound(f"there is no job {id_}")


def require_own(user: User, job: Job, what: str) -> None:
    require_member(user, f"{what} jobs")
    if not is_admin(user) and job.user != user.name:
        raise NotAllowed(
            f"job {job.id} belongs to {job.user}; only {job.user} or an administrator may {what} it"
        )


def require_queue(user: User, queue: QueueName, queues: Queues) -> None:
    """That this user may submit there."""
    if not is_admin(user) and not sees_queue(user, queue, queues):
        raise NotAllowed(f"{user.name} is not a member of queue {queue}; ask an administrator to be added")
