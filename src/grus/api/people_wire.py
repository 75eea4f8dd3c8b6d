"""Users and tokens, in and out. A secret leaves once, in the answer to the request that made it."""

from typing import Annotated

from grus.api import fields as f
from grus.api.job_in import DAY
from grus.api.out import Out
from grus.api.rules import Strict
from grus.api.times import maybe_rfc3339, rfc3339
from grus.api.units import parse_seconds
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import UserName
from grus.model.ports import AccessRole, Token, User

_ROLES = f.choice(tuple(role.value for role in AccessRole))


class UserIn(Strict):
    role: Annotated[str, f.judged(_ROLES)] = AccessRole.MEMBER.value
    unix_user: Annotated[str, f.judged(f.text(32, empty=True))] = ""
    """Whom the user's jobs run as when the server is root."""
    accept_shared_account: f.Flag = False
    """Let people submit though their jobs are not isolated from each other; kept for all later users."""


def to_user(name: str, user: UserIn) -> User:
    """The user for the core. Raises BadInput if the name is none."""
    try:
        f.name(name)
    except ValueError as error:
        raise BadInput([Mistake("name", str(error), name[:80])]) from None
    return User(name=UserName(name), role=AccessRole(user.role), unix_user=user.unix_user)


class UserOut(Out):
    name: str
    role: str
    unix_user: str = ""


def user_out(user: User) -> UserOut:
    return UserOut(name=user.name, role=user.role.value, unix_user=user.unix_user)


class TokenIn(Strict):
    """A wish for a token."""

    user: f.Name
    label: Annotated[str, f.judged(f.text(100, empty=True))] = ""
    expires: Annotated[
        str | int | float | None,
        f.judged(f.optional(f.seconds(60, 3660 * DAY))),
    ] = None
    """Valid for so long: 30d; for ever when left out."""


def expires_at(token: TokenIn, now: float) -> float | None:
    return None if token.expires is None else now + parse_seconds(token.expires)


class TokenOut(Out):
    digest: str
    """SHA-256 of the secret; names the token, opens nothing."""
    user: str
    label: str = ""
    created_at: str
    expires_at: str | None = None
    secret: str | None = None
    """Only in the answer to the request that made it."""


def token_out(token: Token, secret: str | None = None) -> TokenOut:
    return TokenOut(
        digest=token.digest,
        user=token.user,
        label=token.label,
        created_at=rfc3339(token.created_at),
        expires_at=maybe_rfc3339(token.expires_at),
        secret=secret,
    )
