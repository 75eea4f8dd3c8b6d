"""User deletion: refused while the user has live jobs, unless they are to be stopped."""

from collections.abc import Callable

from grus.controlplane.facade.queue_admin import QueueChanges, list_jobs
from grus.controlplane.security.user_tokens import Accounts
from grus.model.errors import Conflict
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import Store, User
from grus.model.jobs import TERMINAL, Desired, Job, Phase

LIVE = tuple(phase for phase in Phase if phase not in TERMINAL)


class UserRemoval:
    """Deletes users; one per server, for any thread. Every step can be repeated: after a crash the command is
    run again.
    """

    def __init__(
        self, store: Store, accounts: Accounts, queues: QueueChanges, stop: Callable[[User, JobId], object]
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._queues = queues
        self._stop = stop

    def delete(self, user: User, name: UserName, *, stop_jobs: bool) -> None:
        """Delete a user with its tokens and memberships.

        Raises Conflict with the list of live jobs, and for the only member of a queue.

        With `stop_jobs` the tokens go first, so that no job is submitted after the live ones were stopped.
        """
        self._accounts.require_deletable(user, name)
        self._queues.require_other_members(name)
        jobs = self._live_jobs(name)
        if jobs and not stop_jobs:
            raise Conflict(
                f"user {name} has jobs that have not ended: {list_jobs(jobs)}; "
                f"`grus user delete {name} --stop-jobs` stops them and deletes the user"
            )
        if jobs:
            self._accounts.delete_tokens(user, name)
        for job in self._live_jobs(name):
            self._stop_one(user, job)
        self._queues.forget_member(user, name)
        self._accounts.delete_user(user, name)

    def _live_jobs(self, name: UserName) -> list[Job]:
        """Return jobs of the user that have not ended and were not requested to stop."""
        return [job for job in self._store.jobs(phases=LIVE, user=name) if job.desired is not Desired.STOP]

    def _stop_one(self, user: User, job: Job) -> None:
        try:
            self._stop(user, job.id)
        except Conflict:
            if not self._store.job(job.id).terminal:
                raise
