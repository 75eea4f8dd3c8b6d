"""Users, tokens and the audit log, with the rules of isolation between users and of a deleted user's jobs."""

from collections.abc import Callable
from dataclasses import dataclass

from grus.controlplane.facade.queue_admin import QueueAdmin, list_jobs
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security import isolation, rbac
from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.security.user_tokens import Accounts, check_unix_user
from grus.controlplane.settings import Settings
from grus.model.audit import AuditRecord
from grus.model.errors import Conflict
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import AUDIT, USERS, Store, Token, User
from grus.model.jobs import TERMINAL, Desired, Job, Phase

LIVE = tuple(phase for phase in Phase if phase not in TERMINAL)


@dataclass(eq=False)
class UserAdmin:
    """One a server, for any thread that may wait for the disk."""

    _store: Store
    _loop: ControlLoop
    _accounts: Accounts
    _queues: QueueAdmin
    _secrets: SecretStore
    _settings: Settings
    _clock: Callable[[], float]
    _stop: Callable[[User, JobId], object]

    def put(
        self, user: User, changed: User, *, accept_shared_account: bool = False, keep_limit: bool = False
    ) -> User:
        """Add or change a user. Raises Conflict if jobs are not isolated, unless that is accepted, now and
        from then on.

        `keep_limit`: leave the user's limit of GPUs as it is.
        """
        rbac.require_admin(user, "add or change users")
        if self._settings.as_submitters:
            check_unix_user(changed.unix_user)
        if accept_shared_account:
            isolation.accept(self._settings, user.name, self._clock())
        isolation.require_apart(self._settings, self._store.find(USERS), changed)
        made = self._accounts.put_user(user, changed, accepted=accept_shared_account, keep_limit=keep_limit)
        self._loop.refresh()
        return made

    def delete(self, user: User, name: UserName, *, stop_jobs: bool = False) -> None:
        """Delete a user with its tokens, secrets and memberships.

        Raises Conflict for the only member of a queue, and with the list of live jobs without `stop_jobs`.
        With `stop_jobs` the tokens go first, so that no job is submitted after the live ones were stopped.
        Every step can be repeated: after a crash the command is run again.
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
        self._secrets.delete_all(name)
        self._loop.refresh()

    def _live_jobs(self, name: UserName) -> list[Job]:
        """Return jobs of the user that have not ended and were not requested to stop."""
        return [job for job in self._store.jobs(phases=LIVE, user=name) if job.desired is not Desired.STOP]

    def _stop_one(self, user: User, job: Job) -> None:
        try:
            self._stop(user, job.id)
        except Conflict:
            if not self._store.job(job.id).terminal:
                raise

    def new_token(
        self,
        user: User,
        for_user: UserName,
        label: str,
        expires_at: float | None = None,
        *,
        asked_with: str = "",
    ) -> tuple[str, Token]:
        """Create a token; return the secret, shown only once, and its record. Raises Conflict as `put`
        does.
        """
        if for_user != user.name and rbac.is_admin(user):
            isolation.require_apart_for_token(self._settings, self._store.find(USERS), for_user)
        return self._accounts.new_token(user, for_user, label, expires_at, asked_with=asked_with)

    def audit(
        self,
        user: User,
        *,
        actor: UserName | None = None,
        target: str = "",
        before: int | None = None,
        limit: int = 100,
    ) -> list[AuditRecord]:
        """Return changes of users, tokens, queues, nodes and others' jobs, newest first; for
        administrators. `before` is the number of the last one of the page before.
        """
        rbac.require_admin(user, "read the audit log")
        after = None if before is None else (before,)
        return self._store.find(AUDIT, actor=actor, target=target or None, after=after, limit=limit)
