"""The page of people and queues: users, tokens and the rules of queues.

Who is no administrator sees their own tokens. It only looks; every change is a request of the page's script
to the API.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from grus.api.wire_types.pool import QueueIn, queue_out
from grus.controlplane.security.rbac import is_admin
from grus.dashboard.page_rendering import page
from grus.model.interfaces import AccessRole, Token, User
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.model.texts.formatting import number, span
from grus.model.texts.units import gpu_number
from grus.server.http.dependencies import Does, Who, off_loop

router = APIRouter(include_in_schema=False)

SHOWN_OF_DIGEST = 8
"""Characters: enough to tell tokens apart, and what `grus token delete` takes."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    digest: str
    short: str
    user: str
    label: str
    created_at: float
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    role: str
    unix_user: str
    tokens: int
    is_self: bool


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    depth: int
    quota: str
    reserved: str
    limit: str
    weight: str
    members: str
    longest: str
    deletable: bool
    rules: dict[str, Any]
    """Settings in the form of the API, for the form."""


@router.get("/admin")
async def admin(request: Request, user: Who, does: Does) -> Response:
    users = await off_loop(does.accounts.users, user)
    tokens = await off_loop(does.accounts.tokens, user)
    queues = await off_loop(does.queues.settings, user) if is_admin(user) else []
    return page(
        request,
        "admin.html",
        users=user_rows(users, tokens, user),
        tokens=token_rows(tokens),
        queues=queue_rows(queues),
        roles=[role.value for role in AccessRole],
    )


def user_rows(users: Sequence[User], tokens: Sequence[Token], looker: User) -> list[UserRow]:
    held = [token.user for token in tokens]
    return [
        UserRow(one.name, one.role.value, one.unix_user, held.count(one.name), one.name == looker.name)
        for one in sorted(users, key=lambda one: one.name)
    ]


def token_rows(tokens: Sequence[Token]) -> list[TokenRow]:
    """Those of one user together, the newest first."""
    ordered = sorted(tokens, key=lambda token: (token.user, -token.created_at))
    return [
        TokenRow(
            token.digest,
            token.digest[:SHOWN_OF_DIGEST],
            token.user,
            token.label,
            token.created_at,
            token.expires_at,
        )
        for token in ordered
    ]


def queue_rows(queues: Sequence[Queue]) -> list[QueueRow]:
    """The tree from the top, each queue before those below it."""
    below: dict[str | None, list[Queue]] = {}
    for queue in sorted(queues, key=lambda queue: queue.name):
        below.setdefault(queue.parent, []).append(queue)

    def rows(parent: str | None, depth: int) -> list[QueueRow]:
        return [
            row
            for queue in below.get(parent, [])
            for row in (_queue_row(queue, depth, queue.name in below), *rows(queue.name, depth + 1))
        ]

    return rows(None, 0)


def _queue_row(queue: Queue, depth: int, has_children: bool) -> QueueRow:
    return QueueRow(
        name=queue.name,
        depth=depth,
        quota=_quota_words(queue.quota),
        reserved=number(gpu_number(queue.reserved)),
        limit="none" if queue.limit is None else number(gpu_number(queue.limit)),
        weight=number(queue.weight),
        members=", ".join(queue.members) or "everybody",
        longest="" if queue.max_runtime is None else span(queue.max_runtime),
        deletable=queue.name != DEFAULT_QUEUE and not has_children,
        rules=_rules(queue),
    )


def _rules(queue: Queue) -> dict[str, Any]:
    """Return the queue's rules without validation.

    Values that older rules accepted can be shown, and changed to permitted ones.
    """
    told = queue_out(queue).model_dump(mode="json")
    told["quota"] = told["quota_by_type"] or told["quota"]
    return {name: told[name] for name in QueueIn.model_fields}


def _quota_words(quota: Quota) -> str:
    """4, or by type: A100: 4, any: 8; the form reads the same."""
    if not quota.typed:
        return number(gpu_number(quota.total))
    return ", ".join(f"{kind}: {number(gpu_number(amount))}" for kind, amount in quota.by_type)
