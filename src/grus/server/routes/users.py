"""Routes of people: users, tokens, the audit log. What each role may do here is decided by the services."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from grus.api.wire_types.users import (
    AuditOut,
    TokenIn,
    TokenOut,
    UserIn,
    UserOut,
    expires_at,
    to_user,
    token_out,
)
from grus.model.audit import MOST_AUDIT_RECORDS
from grus.model.identifiers import UserName
from grus.server.http.dependencies import MOST_SEQ, Does, NamePath, Who, WhoExactly, answer, answers, off_loop

router = APIRouter(prefix="/v1", tags=["people"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the token, as listed.")]


@router.get("/users", response_model=list[UserOut])
async def list_users(user: Who, does: Does) -> Response:
    return answers(UserOut, [UserOut.from_model(one) for one in await off_loop(does.accounts.users, user)])


@router.put("/users/{name}", response_model=UserOut)
async def put_user(name: NamePath, body: UserIn, user: Who, does: Does) -> Response:
    """Add a user, or replace its settings; `max_gpus` stays as it is where it is left out."""
    put = partial(
        does.users.put,
        user,
        to_user(name, body),
        accept_shared_account=body.accept_shared_account,
        keep_limit="max_gpus" not in body.model_fields_set,
    )
    return answer(UserOut.from_model(await off_loop(put)))


@router.delete("/users/{name}", status_code=204)
async def delete_user(
    name: NamePath,
    user: Who,
    does: Does,
    stop_jobs: Annotated[bool, Query(description="Stop the user's jobs that have not ended.")] = False,
) -> Response:
    """Remove a user with its tokens and memberships; refused with their list while it has live jobs."""
    await off_loop(partial(does.users.delete, user, UserName(name), stop_jobs=stop_jobs))
    return Response(status_code=204)


@router.get("/audit", response_model=list[AuditOut])
async def list_audit(
    user: Who,
    does: Does,
    actor: Annotated[str, Query(max_length=253, description="Changes by this user.")] = "",
    target: Annotated[str, Query(max_length=253, description="Changes of this object.")] = "",
    before: Annotated[int | None, Query(ge=0, le=MOST_SEQ, description="Older than this number.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_AUDIT_RECORDS)] = 100,
) -> Response:
    """Changes of users, tokens, queues, nodes and other people's jobs, newest first; for administrators."""
    by = UserName(actor) if actor else None
    found = await off_loop(does.users.audit, user, actor=by, target=target, before=before, limit=limit)
    return answers(AuditOut, [AuditOut.from_model(one) for one in found])


@router.get("/tokens", response_model=list[TokenOut])
async def list_tokens(user: Who, does: Does) -> Response:
    found, now = await off_loop(does.accounts.tokens, user), does.clock()
    return answers(TokenOut, [token_out(one, now=now) for one in found])


@router.post("/tokens", status_code=201, response_model=TokenOut)
async def new_token(body: TokenIn, caller: WhoExactly, does: Does) -> Response:
    """Make a token. Its secret is in this answer and nowhere else."""
    until, whose = expires_at(body, does.clock()), UserName(body.user)
    make = partial(does.users.new_token, caller.user, whose, body.label, until, asked_with=caller.token)
    secret, token = await off_loop(make)
    return answer(token_out(token, secret), 201)


@router.delete("/tokens/{digest}", status_code=204)
async def delete_token(digest: Digest, user: Who, does: Does) -> Response:
    await off_loop(does.accounts.delete_token, user, digest)
    return Response(status_code=204)
