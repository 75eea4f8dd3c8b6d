"""Users and their tokens. A secret is 256 bits of chance, shown once; only its SHA-256 is kept anywhere.

Who presents a secret is found by looking its digest up. How long that takes tells nothing about any secret:
only digests are compared. Looking up reads no store; changes of users and tokens go through here.
"""

import hashlib
import pwd
import secrets
from collections.abc import Callable
from typing import NamedTuple

from grus.controlplane import access
from grus.model.errors import BadInput, Conflict, Mistake, NotAllowed, NotFound, NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.ports import AccessRole, Store, Token, User

PREFIX = "grus_"
UNKNOWN = (
    "This token is not known here (GRUS_TOKEN, else the token file). Ask an administrator for a new one."
)


class Known(NamedTuple):
    user: User
    expires_at: float | None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def check_unix_user(name: str) -> None:
    """Raises BadInput if no job can run as that user; the empty name is the server's own."""
    try:
        pwd.getpwnam(name or "root")
    except KeyError:
        raise BadInput([Mistake("unix_user", "is no Unix user of the server's machine", name)]) from None


class Accounts:
    """All users and tokens, kept in memory from the store; `refresh` after they were changed elsewhere."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, Known] = {}
        self.refresh()

    def refresh(self) -> None:
        users = {user.name: user for user in self._store.users()}
        # Replaced whole, so that a reader in another thread sees the old or the new, never half of each.
        self._known = {
            token.digest: Known(users[token.user], token.expires_at)
            for token in self._store.tokens()
            if token.user in users
        }

    def whoami(self, secret: str) -> User:
        """Whose secret this is. Raises NotLoggedIn."""
        return self.holder(digest_of(secret))

    def holder(self, digest: str) -> User:
        """Whose token has that digest, for as long as it holds. Raises NotLoggedIn."""
        known = self._known.get(digest)
        if known is None:
            raise NotLoggedIn(UNKNOWN)
        if known.expires_at is not None and self._clock() >= known.expires_at:
            raise NotLoggedIn("This token has expired. Ask an administrator for a new one.")
        return known.user

    # ------------------------------------------------------------------------------------ users

    def users(self, user: User) -> list[User]:
        """All of them for an administrator, oneself for others."""
        return [other for other in self._store.users() if access.is_admin(user) or other.name == user.name]

    def put_user(self, user: User, changed: User) -> User:
        access.require_admin(user, "add or change users")
        if not changed.name:
            raise BadInput([Mistake("name", "must not be empty")])
        if changed.role is not AccessRole.ADMIN:
            self._keep_an_admin(changed.name)
        self._store.put_user(changed).result()
        self.refresh()
        return changed

    def delete_user(self, user: User, name: UserName) -> None:
        """With its tokens; jobs that run go on to their end."""
        access.require_admin(user, "delete users")
        if all(other.name != name for other in self._store.users()):
            raise NotFound(f"there is no user {name}")
        self._keep_an_admin(name)
        self._store.delete_user(name).result()
        self.refresh()

    def _keep_an_admin(self, without: UserName) -> None:
        admins = [user.name for user in self._store.users() if user.role is AccessRole.ADMIN]
        if admins == [without]:
            raise Conflict(f"{without} is the only administrator; make somebody else one first")

    # ----------------------------------------------------------------------------------- tokens

    def tokens(self, user: User) -> list[Token]:
        """All of them for an administrator, one's own for others."""
        return [token for token in self._store.tokens() if access.is_admin(user) or token.user == user.name]

    def new_token(
        self, user: User, for_user: UserName, label: str, expires_at: float | None = None
    ) -> tuple[str, Token]:
        """A new secret, which nobody can show again, and its record."""
        if for_user != user.name and not access.is_admin(user):
            raise NotAllowed(f"only {for_user} or an administrator may make a token for {for_user}")
        if all(other.name != for_user for other in self._store.users()):
            raise NotFound(f"there is no user {for_user}")
        secret = PREFIX + secrets.token_urlsafe(32)
        token = Token(
            digest=digest_of(secret),
            user=for_user,
            label=label,
            created_at=self._clock(),
            expires_at=expires_at,
        )
        self._store.put_token(token).result()
        self.refresh()
        return secret, token

    def delete_token(self, user: User, digest: str) -> None:
        if all(token.digest != digest for token in self.tokens(user)):
            raise NotFound("there is no such token")
        self._store.delete_token(digest).result()
        self.refresh()
