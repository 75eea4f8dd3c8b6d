"""Wire models of users, tokens and audit records, in and out. A secret leaves once, in the answer to its own
request.
"""

from typing import Annotated

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import Strict
from grus.api.wire_types.base import GpuCount, Out, Timestamp
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, Token, User
from grus.model.resources import GPU
from grus.model.texts.units import MOST_GPUS, parse_seconds

_ROLES = f.choice(tuple(role.value for role in AccessRole))


class UserIn(Strict):
    role: Annotated[str, f.judged(_ROLES)] = AccessRole.MEMBER.value
    unix_user: Annotated[str, f.judged(f.text(32, empty=True))] = ""
    """Unix user that the user's jobs run as when the server is root."""
    max_gpus: Annotated[float | None, f.judged(f.optional(f.number(0, 10 * MOST_GPUS)))] = None
    """GPUs that jobs of the user may hold together; null: no limit. A change that leaves it out keeps it."""
    accept_shared_account: f.Flag = False
    """Allow several people to submit though their jobs are not isolated from each other; kept for all later
    users.
    """


def to_user(name: str, user: UserIn) -> User:
    """Return the user for the core. Raises BadInput if the name is invalid."""
    limit = None if user.max_gpus is None else round(user.max_gpus * GPU)
    return User(
        name=UserName(f.object_name(name)),
        role=AccessRole(user.role),
        unix_user=user.unix_user,
        max_gpus=limit,
    )


class UserOut(Out):
    name: str
    role: str
    unix_user: str = ""
    max_gpus: GpuCount | None = None
    """GPUs that the user's jobs may hold together; null for no limit."""


class TokenIn(Strict):
    """Request for a token."""

    user: f.Name
    label: Annotated[str, f.judged(f.text(100, empty=True))] = ""
    expires: Annotated[
        str | int | float | None,
        f.judged(f.optional(f.seconds(60, 3660 * f.DAY))),
    ] = None
    """Lifetime of the token, such as 30d; unlimited when left out."""


def expires_at(token: TokenIn, now: float) -> float | None:
    return None if token.expires is None else now + parse_seconds(token.expires)


class TokenOut(Out):
    digest: str
    """SHA-256 of the secret; names the token, opens nothing."""
    user: str
    label: str = ""
    created_at: Timestamp
    expires_at: Timestamp | None = None
    expired: bool = False
    """True once it is refused because its time has passed."""
    secret: str | None = None
    """Secret, only in the answer to the request that created it."""


def token_out(token: Token, secret: str | None = None, *, now: float = 0.0) -> TokenOut:
    """Return a token for the wire; `now` decides whether it has expired."""
    expired = token.expires_at is not None and now >= token.expires_at
    return TokenOut.from_model(token, secret=secret, expired=expired)


class AuditOut(Out):
    """One change by one user."""

    seq: int
    at: Timestamp
    actor: str
    action: str
    """Kind and verb: user.set, token.create, queue.set, node.drain, job.stop, …"""
    target: str
    """Name of the user, queue or node, id of the job, or beginning of the token's digest."""
    text: str = ""
