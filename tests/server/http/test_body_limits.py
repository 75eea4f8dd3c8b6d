"""Bodies are bounded in size and time, whatever their headers claim."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from grus.server.http import body_limits
from grus.server.http.body_limits import LARGEST_INPUTS, Bodies


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{len(body)}")(scope, receive, send)


def post(
    parts: Iterable[bytes], *, headers: dict[str, str], stall: bool = False, path: str = "/"
) -> tuple[int, bytes, dict[str, str]]:
    """Send a body in parts to an app that takes 10 bytes within 50 ms; status, answer and headers."""
    messages: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    sent: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        if stall:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(Bodies(echo, largest=10, slowest=0.05)(scope, receive, send))
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], sent[1]["body"], answered


PREDICT = "/v1/jobs/j1/predict"
CHUNKED = {"Transfer-Encoding": "chunked"}


def test_a_body_in_several_parts_arrives_whole() -> None:
    assert post([b"12345", b"67890"], headers=CHUNKED)[:2] == (200, b"10")


def test_a_declared_size_above_the_limit_is_refused_before_reading() -> None:
    status, _, headers = post([], headers={"Content-Length": "11"}, stall=True)
    assert (status, headers["connection"]) == (413, "close")


def test_a_body_that_grows_above_the_limit_is_refused_although_nothing_was_declared() -> None:
    assert post([b"12345", b"678901"], headers=CHUNKED)[0] == 413


def test_a_size_that_was_declared_too_small_does_not_help() -> None:
    assert post([b"x" * 11], headers={"Content-Length": "5"})[0] == 413


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    assert post([b"1"], headers={"Content-Length": "5"}, stall=True)[0] == 408


def test_a_client_that_leaves_in_the_middle_is_forgotten() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError("nobody is there to be answered")

    scope = {"type": "http", "headers": [(b"content-length", b"5")]}
    asyncio.run(Bodies(echo)(scope, receive, send))


def test_what_is_sent_to_a_model_may_be_larger_if_it_says_how_large() -> None:
    assert post([b"x" * 11], headers={"Content-Length": "11"}, path=PREDICT)[:2] == (200, b"11")
    assert post([b"x" * 11], headers=CHUNKED, path=PREDICT)[0] == 413
    assert post([], headers={"Content-Length": str(LARGEST_INPUTS + 1)}, path=PREDICT, stall=True)[0] == 413
    assert post([b"x" * 11], headers={"Content-Length": "11"}, path="/v1/jobs")[0] == 413


def test_large_bodies_are_in_memory_for_a_few_requests_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limits, "MOST_LARGE", 0)
    assert post([b"x" * 11], headers={"Content-Length": "11"}, path=PREDICT)[0] == 503
    assert post([b"x" * 9], headers={"Content-Length": "9"}, path=PREDICT)[0] == 200
