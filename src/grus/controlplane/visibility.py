"""Visibility of jobs and queues for each user: the rules of `authorization` applied to the present queues."""

from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.controlplane.security import rbac
from grus.controlplane.security.rbac import Owner
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import Event, Store, User
from grus.model.jobs import Job
from grus.model.queues import Queue

MOST_OWNERS = 200_000


class JobVisibility:
    """Visibility checks; remembers the owner of each job, which never changes."""

    def __init__(self, store: Store, picture: ClusterState) -> None:
        self._store = store
        self._picture = picture
        self._owners: dict[JobId, Owner] = {}

    def get(self, user: User, job: JobId) -> Job:
        """Return the job. Raises NotFound, also if the user may not see it."""
        found = self._store.job(job)
        rbac.require_sight(user, job, Owner.of(found), self.by_name)
        return found

    def sees(self, user: User, owner: UserName, queue: QueueName) -> bool:
        """Return whether the user sees the jobs of `owner` in that queue."""
        return rbac.sees_job(user, Owner(owner, queue), self.by_name)

    @property
    def by_name(self) -> rbac.Queues:
        """All queues, replaced whole when they change."""
        return self._picture.by_name

    def queues(self, user: User) -> set[QueueName]:
        """Queues that this user may use, and those above them."""
        by_name = self.by_name
        seen = set()
        for name, queue in by_name.items():
            if rbac.sees_queue(user, name, by_name):
                at: Queue | None = queue
                while at is not None:
                    seen.add(at.name)
                    at = by_name.get(at.parent) if at.parent is not None else None
        return seen

    def event(self, user: User, event: Event) -> bool:
        return event.job is None or self.job(user, event.job)

    def job(self, user: User, job: JobId) -> bool:
        """Return whether the user sees the job; only administrators see a job that is no longer on record."""
        if rbac.is_admin(user):
            return True
        owner = self.owner(job)
        return owner is not None and rbac.sees_job(user, owner, self.by_name)

    def owner(self, job: JobId) -> Owner | None:
        """Return the owner of the job; None if it is no longer on record."""
        if job not in self._owners:
            if len(self._owners) >= MOST_OWNERS:
                self._owners.clear()
            try:
                self._owners[job] = Owner.of(self._store.job(job))
            except NotFound:
                return None
        return self._owners.get(job)
