"""Common parts of all routes: the caller, the services, and the encoding of values as answers.

A route is three lines: take the parsed input, call one service, answer. Every call that may wait (for the
disk, for the scheduler's lock) goes through `off_loop`, so that one slow call never blocks the others.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.model.errors import NotLoggedIn
from grus.model.interfaces import User
from grus.server.http.auth_middleware import Caller
from grus.server.http.event_streams import Streams

P = ParamSpec("P")
T = TypeVar("T")


def caller_of(request: Request) -> Caller:
    """Return the caller that the gate found. A route that somehow got past the gate still has no caller."""
    caller = request.scope.get("state", {}).get("caller")
    if not isinstance(caller, Caller):
        raise NotLoggedIn("A token is needed: send `Authorization: Bearer TOKEN`.")
    return caller


async def the_caller(request: Request) -> Caller:
    return caller_of(request)


async def the_user(request: Request) -> User:
    return caller_of(request).user


async def the_services(request: Request) -> Services:
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


async def the_streams(request: Request) -> Streams:
    found = request.app.state.streams
    assert isinstance(found, Streams)
    return found


Who = Annotated[User, Depends(the_user)]
WhoExactly = Annotated[Caller, Depends(the_caller)]
Does = Annotated[Services, Depends(the_services)]
Live = Annotated[Streams, Depends(the_streams)]
JobPath = Annotated[str, Path(max_length=64, description="A job's id.")]
MOST_SEQ = 2**63 - 1
"""The last number that a store can give to an event."""
After = Annotated[int, Query(ge=0, le=MOST_SEQ, description="The number of the last event that is known.")]
NamePath = Annotated[str, Path(min_length=1, max_length=253)]


async def off_loop(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call that may block, made in a thread."""
    return await anyio.to_thread.run_sync(partial(call, *args, **kwargs))


def encoded(value: BaseModel) -> bytes:
    """A wire value as JSON, by pydantic's own core."""
    return value.__pydantic_serializer__.to_json(value, by_alias=True)


def encoded_list(kind: type[BaseModel], values: list[Any]) -> bytes:
    return _lists(kind).dump_json(values, by_alias=True)


def answer(value: BaseModel, status: int = 200) -> Response:
    return Response(encoded(value), status, media_type="application/json")


def answers(kind: type[BaseModel], values: list[Any], status: int = 200) -> Response:
    return Response(encoded_list(kind, values), status, media_type="application/json")


@cache
def _lists(kind: type[BaseModel]) -> TypeAdapter[list[BaseModel]]:
    return TypeAdapter(list[kind])  # type: ignore[valid-type]  # a type made at run time
