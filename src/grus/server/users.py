"""Routes of people: users and their tokens. What each role may do here is decided by the services."""

import time
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from grus.api.wire import TokenIn, TokenOut, UserIn, UserOut, expires_at, to_user, token_out, user_out
from grus.model.identifiers import UserName
from grus.server.edge import Does, NamePath, Who, answer, answers, off_loop

router = APIRouter(prefix="/v1", tags=["people"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the token, as listed.")]


@router.get("/users", response_model=list[UserOut])
async def list_users(user: Who, does: Does) -> Response:
    return answers(UserOut, [user_out(one) for one in await off_loop(does.users, user)])


@router.put("/users/{name}", response_model=UserOut)
async def put_user(name: NamePath, body: UserIn, user: Who, does: Does) -> Response:
    accept = body.accept_shared_account
    made = await off_loop(partial(does.put_user, user, to_user(name, body), accept_shared_account=accept))
    return answer(user_out(made))


@router.delete("/users/{name}", status_code=204)
async def delete_user(name: NamePath, user: Who, does: Does) -> Response:
    """Removes the user's tokens with it; running jobs finish."""
    await off_loop(does.delete_user, user, UserName(name))
    return Response(status_code=204)


@router.get("/tokens", response_model=list[TokenOut])
async def list_tokens(user: Who, does: Does) -> Response:
    return answers(TokenOut, [token_out(one) for one in await off_loop(does.tokens, user)])


@router.post("/tokens", status_code=201, response_model=TokenOut)
async def new_token(body: TokenIn, user: Who, does: Does) -> Response:
    """Make a token. Its secret is in this answer and nowhere else."""
    until = expires_at(body, time.time())
    secret, token = await off_loop(does.new_token, user, UserName(body.user), body.label, until)
    return answer(token_out(token, secret), 201)


@router.delete("/tokens/{digest}", status_code=204)
async def delete_token(digest: Digest, user: Who, does: Does) -> Response:
    await off_loop(does.delete_token, user, digest)
    return Response(status_code=204)
