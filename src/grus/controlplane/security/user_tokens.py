"""Users and their tokens. A secret is 256 random bits, shown once; only its SHA-256 digest is stored.

The presenter of a secret is found by looking up its digest. The time that takes reveals nothing about any
secret, because only digests are compared. A lookup reads no store; changes of users and tokens go through
this module.
"""

import hashlib
import pwd
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from grus.controlplane.security import audit_records, rbac
from grus.model.errors import BadInput, Conflict, Mistake, NotAllowed, NotFound, NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.interfaces import TOKENS, USERS, AccessRole, Store, Token, User

PREFIX = "grus_"
UNKNOWN = (
    "This token is not known here (GRUS_TOKEN, else the token file). Ask an administrator for a new one."
)


class TokenOwner(NamedTuple):
    user: User
    expires_at: float | None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def check_unix_user(name: str) -> None:
    """Raises BadInput if no job can run as that user; the empty name is the server's own."""
    try:
        pwd.getpwnam(name or "root")
    except KeyError:
        rule = f"is no account of the server's machine; `useradd --create-home {name}` makes it there"
        raise BadInput([Mistake("unix_user", rule, name)]) from None


class Accounts:
    """All users and tokens, kept in memory from the store; `refresh` after they were changed elsewhere."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, TokenOwner] = {}
        self._changing = threading.Lock()
        """Held while a rule about several users is checked and the change is written."""
        self.refresh()

    def refresh(self) -> None:
        users = {user.name: user for user in self._store.find(USERS)}
        # Replaced whole, so that a reader in another thread sees the old or the new, never half of each.
        self._known = {
            token.digest: TokenOwner(users[token.user], token.expires_at)
            for token in self._store.find(TOKENS)
            if token.user in users
        }

    def whoami(self, secret: str) -> User:
        """Return the user to whom this secret belongs. Raises NotLoggedIn."""
        return self.holder(digest_of(secret))

    def holder(self, digest: str) -> User:
        """Return the user whose token has that digest, as long as the token is valid. Raises NotLoggedIn."""
        known = self._known.get(digest)
        if known is None:
            raise NotLoggedIn(UNKNOWN)
        if known.expires_at is not None and self._clock() >= known.expires_at:
            raise NotLoggedIn(
                f"This token of {known.user.name} expired at {_utc(known.expires_at)}. "
                "Ask an administrator for a new one (`grus token new`), then `grus login` with it."
            )
        return known.user

    # ------------------------------------------------------------------------------------ users

    def users(self, user: User) -> list[User]:
        """Return all users for an administrator, else only the user itself."""
        return [other for other in self._store.find(USERS) if rbac.is_admin(user) or other.name == user.name]

    def put_user(
        self, user: User, changed: User, *, accepted: bool = False, keep_limit: bool = False
    ) -> User:
        """Add or change a user. `accepted`: the caller accepts that users share one Unix account, which is
        recorded.

        `keep_limit`: leave the user's limit of GPUs as it is.
        """
        rbac.require_admin(user, "add or change users")
        if not changed.name:
            raise BadInput([Mistake("name", "must not be empty")])
        with self._changing:
            if changed.role is not AccessRole.ADMIN:
                self._keep_an_admin(changed.name)
            before = self._find(changed.name)
            if keep_limit and before is not None:
                changed = replace(changed, max_gpus=before.max_gpus)
            record = audit_records.user_set(user, self._clock(), before, changed, accepted)
            self._store.put(USERS, changed, record=record).result()
            self.refresh()
        return changed

    def require_deletable(self, user: User, name: UserName) -> None:
        """Raise NotAllowed, NotFound, or Conflict for the only administrator."""
        rbac.require_admin(user, "delete users")
        if self._find(name) is None:
            raise NotFound(f"there is no user {name}")
        self._keep_an_admin(name)

    def delete_user(self, user: User, name: UserName) -> None:
        """Delete a user with its tokens. The caller handles its jobs."""
        with self._changing:
            self.require_deletable(user, name)
            record = audit_records.user_deleted(user, self._clock(), name)
            self._store.delete(USERS, name, record=record).result()
            self.refresh()

    def delete_tokens(self, user: User, name: UserName) -> None:
        """Delete all tokens of a user; requests with them are refused from then on."""
        rbac.require_admin(user, "delete tokens of others")
        for token in self._store.find(TOKENS):
            if token.user == name:
                self.delete_token(user, token.digest)

    def _find(self, name: UserName) -> User | None:
        return next((one for one in self._store.find(USERS) if one.name == name), None)

    def _keep_an_admin(self, without: UserName) -> None:
        admins = [user.name for user in self._store.find(USERS) if user.role is AccessRole.ADMIN]
        if admins == [without]:
            raise Conflict(f"{without} is the only administrator; make somebody else one first")

    # ----------------------------------------------------------------------------------- tokens

    def tokens(self, user: User) -> list[Token]:
        """Return all tokens for an administrator, else the user's own."""
        return [token for token in self._store.find(TOKENS) if rbac.is_admin(user) or token.user == user.name]

    def new_token(
        self,
        user: User,
        for_user: UserName,
        label: str,
        expires_at: float | None = None,
        *,
        asked_with: str = "",
    ) -> tuple[str, Token]:
        """Return a new secret, which cannot be shown again, and its record.

        `asked_with` is the digest of the caller's token. A new token for the same user never outlasts it: a
        stolen token must not be able to extend itself.
        """
        if for_user != user.name and not rbac.is_admin(user):
            raise NotAllowed(f"only {for_user} or an administrator may make a token for {for_user}")
        if self._find(for_user) is None:
            raise NotFound(f"there is no user {for_user}")
        if for_user == user.name:
            expires_at = self._bounded(expires_at, asked_with)
        secret = PREFIX + secrets.token_urlsafe(32)
        token = Token(
            digest=digest_of(secret),
            user=for_user,
            label=label,
            created_at=self._clock(),
            expires_at=expires_at,
        )
        record = audit_records.token_created(user, self._clock(), token)
        self._store.put(TOKENS, token, record=record).result()
        self.refresh()
        return secret, token

    def _bounded(self, expires_at: float | None, asked_with: str) -> float | None:
        known = self._known.get(asked_with)
        last = None if known is None else known.expires_at
        if last is None or (expires_at is not None and expires_at <= last):
            return expires_at
        if expires_at is None:
            return last
        own = f"must end by {_utc(last)}, when the token that you use expires"
        rule = f"{own}; an administrator can make a longer one"
        raise BadInput([Mistake("expires", rule, _utc(expires_at))])

    def delete_token(self, user: User, digest: str) -> None:
        found = next((token for token in self.tokens(user) if token.digest == digest), None)
        if found is None:
            raise NotFound("there is no such token")
        record = audit_records.token_deleted(user, self._clock(), found)
        self._store.delete(TOKENS, digest, record=record).result()
        self.refresh()


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
