"""Routes of secrets: each user's own. No route answers with a value, to anybody."""

from fastapi import APIRouter
from starlette.responses import Response

from grus.api.wire_types.secrets import SecretIn, SecretOut
from grus.server.http.dependencies import Does, NamePath, Who, answers, off_loop

router = APIRouter(prefix="/v1", tags=["people"])


@router.get("/secrets", response_model=list[SecretOut])
async def list_secrets(user: Who, does: Does) -> Response:
    """Names of one's own secrets."""
    found = await off_loop(does.secrets.listed, user)
    return answers(SecretOut, [SecretOut.from_model(one) for one in found])


@router.put("/secrets/{name}", status_code=204)
async def put_secret(name: NamePath, body: SecretIn, user: Who, does: Does) -> Response:
    """Set a secret of one's own, or replace its value."""
    await off_loop(does.secrets.put, user, name, body.value)
    return Response(status_code=204)


@router.delete("/secrets/{name}", status_code=204)
async def delete_secret(name: NamePath, user: Who, does: Does) -> Response:
    await off_loop(does.secrets.delete, user, name)
    return Response(status_code=204)
