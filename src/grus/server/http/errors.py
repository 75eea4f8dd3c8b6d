"""Errors of the server: one JSON form, a status, a code for machines; never a traceback.

    {"error": {"code", "message", "mistakes": [{"field", "rule", "value", "line"}]}}

An unexpected error becomes a 500 with an id; the cause is in the server's log under that id.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from grus.api.parsing.validation_errors import mistakes_of
from grus.model.errors import BadInput, GrusError, Mistake

log = logging.getLogger(__name__)

_TEXT = {"type": "string"}
_MISTAKE = {"field": _TEXT, "rule": _TEXT, "value": _TEXT, "line": {"type": ["integer", "null"]}}
_INSIDE = {
    "code": _TEXT,
    "message": _TEXT,
    "mistakes": {
        "type": "array",
        "items": {"type": "object", "properties": _MISTAKE, "required": list(_MISTAKE)},
    },
}
ERROR = {
    "type": "object",
    "properties": {"error": {"type": "object", "properties": _INSIDE, "required": list(_INSIDE)}},
    "required": ["error"],
}
"""The form as OpenAPI describes it."""
ERROR_ANSWER = {
    "description": "Why not: a code for machines, a sentence for people.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


@dataclass(eq=False)
class Refusal(Exception):
    """The request is refused for what it is as HTTP (too large, too many, from the wrong place).

    Not frozen: Python and the frameworks write the traceback of an exception on its way.
    """

    status: int
    code: str
    message: str
    retry_after: float | None = None

    def response(self) -> Response:
        headers = {} if self.retry_after is None else {"Retry-After": f"{self.retry_after:.3f}"}
        return _response(self.status, self.code, self.message, headers=headers)


def of_grus_error(error: GrusError) -> Response:
    mistakes = error.mistakes if isinstance(error, BadInput) else ()
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.status >= 500:
        log.error("answered %s %s: %s", error.status, error.code, error)
    return _response(error.status, error.code, str(error), mistakes, headers)


def of_validation(error: RequestValidationError) -> Response:
    """Pydantic's findings about a body or a parameter, in the words of BadInput."""
    return of_grus_error(BadInput(mistakes_of(error.errors(), whole="request")))


def of_http(error: HTTPException) -> Response:
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
    return _response(error.status_code, code, str(error.detail), headers=error.headers or {})


def of_surprise(error: BaseException, what: str) -> Response:
    """A 500 that says nothing but an id; everything else goes to the log."""
    number = secrets.token_hex(8)
    log.error("error %s in %s", number, what, exc_info=error)
    message = f"Something went wrong inside the server. Its log has the cause under the id {number}."
    return _response(500, "internal", message)


async def on_grus_error(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette's shape
    assert isinstance(error, GrusError)
    return of_grus_error(error)


async def on_validation(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette's shape
    assert isinstance(error, RequestValidationError)
    return of_validation(error)


async def on_http(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette's shape
    assert isinstance(error, HTTPException)
    return of_http(error)


async def on_refusal(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette's shape
    assert isinstance(error, Refusal)
    return error.response()


def _response(
    status: int,
    code: str,
    message: str,
    mistakes: Sequence[Mistake] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = {
        "error": {
            "code": code,
            "message": message,
            "mistakes": [
                {"field": one.field, "rule": one.rule, "value": one.value, "line": one.line}
                for one in mistakes
            ],
        }
    }
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")
