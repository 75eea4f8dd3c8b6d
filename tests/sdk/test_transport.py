"""Errors rebuilt as the server raised them; lost answers asked for again, but only where that is harmless."""

import json
from collections.abc import Callable

import httpx2
import pytest

from grus.model.errors import (
    BadInput,
    Conflict,
    DoesNotFit,
    GrusError,
    NotFound,
    NotLoggedIn,
    StaleVersion,
    StoreFailed,
    Unreachable,
)
from grus.sdk.transport import Transport

Handler = Callable[[httpx2.Request], httpx2.Response]


def a_transport(handler: Handler, *, patience: float = 5.0, pauses: list[float] | None = None) -> Transport:
    """A transport over a pretended server; its clock moves only by its own pauses."""
    slept = [] if pauses is None else pauses
    return Transport(
        "http://127.0.0.1:7600",
        "secret",
        timeout=1.0,
        patience=patience,
        env={},
        backend=httpx2.MockTransport(handler),
        pause=slept.append,
        clock=lambda: sum(slept),
    )


def an_error(status: int, code: str, **more: object) -> httpx2.Response:
    return httpx2.Response(status, json={"error": {"code": code, "message": "because", **more}})


@pytest.mark.parametrize("address", ["foo", "127.0.0.1:7600", "ftp://x", "http://"])
def test_an_address_that_is_none_is_told_at_once(address: str) -> None:
    with pytest.raises(BadInput, match="http://127"):
        Transport(address, "secret", timeout=1.0, patience=0.0, env={})


def test_a_token_is_not_sent_to_another_machine_without_encryption() -> None:
    with pytest.raises(BadInput, match=r"ask for https://gpu\.example\.org:7600") as caught:
        Transport("http://gpu.example.org:7600", "secret", timeout=1.0, patience=0.0, env={})
    assert "GRUS_INSECURE_HTTP=1" in str(caught.value)
    for env, token in (({"GRUS_INSECURE_HTTP": "1"}, "secret"), ({}, "")):
        Transport("http://gpu.example.org:7600", token, timeout=1.0, patience=0.0, env=env).close()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", NotFound),
        (401, "not_logged_in", NotLoggedIn),
        (409, "does_not_fit", DoesNotFit),
        (409, "conflict", Conflict),
        (409, "stale_version", StaleVersion),
        (503, "store_failed", StoreFailed),
    ],
)
def test_an_error_of_the_server_is_raised_as_the_same_class(
    status: int, code: str, kind: type[GrusError]
) -> None:
    with pytest.raises(kind, match="because") as caught:
        a_transport(lambda _: an_error(status, code)).request("GET", "/v1/jobs")
    assert type(caught.value) is kind


def test_bad_input_keeps_every_mistake() -> None:
    mistakes = [
        {"field": "run", "rule": "is needed", "value": "", "line": 3},
        {"field": "queue", "rule": "no"},
    ]
    with pytest.raises(BadInput) as caught:
        a_transport(lambda _: an_error(422, "bad_input", mistakes=mistakes)).request("POST", "/v1/jobs")
    assert [(one.field, one.line) for one in caught.value.mistakes] == [("run", 3), ("queue", None)]


def test_an_answer_that_is_no_error_of_grus_is_still_an_error() -> None:
    with pytest.raises(GrusError, match="502"):
        a_transport(lambda _: httpx2.Response(502, text="proxy")).request("GET", "/v1/jobs")


class Flaky:
    """A server that loses the first answers in a given way."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.seen: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if self.failures:
            raise self.failures.pop(0)
        return httpx2.Response(200, json={})


def test_a_lost_answer_is_asked_for_again_with_the_same_key_and_body() -> None:
    server = Flaky(
        httpx2.ReadError("reset"), httpx2.ConnectError("refused"), httpx2.RemoteProtocolError("cut")
    )
    headers = {"Idempotency-Key": "k1"}
    a_transport(server).request("POST", "/v1/jobs", content=b'{"run": "x"}', headers=headers)
    assert {(r.headers["Idempotency-Key"], r.content) for r in server.seen} == {("k1", b'{"run": "x"}')}
    assert len(server.seen) == 4


def test_a_server_that_refuses_the_first_connection_is_told_of_at_once() -> None:
    server, pauses = Flaky(httpx2.ConnectError("refused")), list[float]()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:7600"):
        a_transport(server, pauses=pauses).request("GET", "/v1/status")
    assert (len(server.seen), pauses) == (1, [])


def test_what_must_not_be_done_twice_is_not_repeated() -> None:
    server = Flaky()
    transport = a_transport(server)
    transport.request("GET", "/v1/status")
    server.failures, server.seen = [httpx2.ReadError("reset")], []
    with pytest.raises(Unreachable, match="not known"):
        transport.request("POST", "/v1/tokens", content=b"{}", repeatable=False)
    assert len(server.seen) == 1


def test_patience_with_a_server_that_vanished_ends() -> None:
    server, pauses = Flaky(), list[float]()
    transport = a_transport(server, patience=5.0, pauses=pauses)
    transport.request("GET", "/v1/status")
    server.failures = [httpx2.ConnectError("refused")] * 1000
    with pytest.raises(Unreachable):
        transport.request("GET", "/v1/status")
    assert 2.0 < sum(pauses) <= 5.0


def test_a_server_that_asks_to_come_back_later_is_obeyed() -> None:
    answers = [httpx2.Response(429, headers={"Retry-After": "0.7"}), httpx2.Response(200, json={})]
    pauses = list[float]()
    a_transport(lambda _: answers.pop(0), pauses=pauses).request("GET", "/v1/status")
    assert pauses == [0.7]


def a_stream(*events: tuple[str, str, str]) -> httpx2.Response:
    text = "".join(f"id: {number}\nevent: {kind}\ndata: {data}\n\n" for kind, data, number in events)
    return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)


def test_a_broken_stream_goes_on_after_its_last_id_until_the_server_says_end() -> None:
    asked: list[str | None] = []
    streams = [
        a_stream(("event", '{"n": 1}', "1"), ("event", '{"n": 2}', "2")),
        a_stream(("event", '{"n": 3}', "3"), ("reconnect", "{}", "")),
        a_stream(("event", '{"n": 4}', "4"), ("end", "{}", "")),
    ]

    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/healthz":
            return httpx2.Response(200)
        asked.append(request.headers.get("Last-Event-ID"))
        return streams.pop(0)

    found = [json.loads(event.data)["n"] for event in a_transport(handler).live("/v1/events")]
    assert found == [1, 2, 3, 4]
    assert asked == [None, "2", "3"]


def test_an_error_inside_a_stream_is_raised() -> None:
    error = ("error", '{"code": "not_logged_in", "message": "gone"}', "")
    with pytest.raises(NotLoggedIn, match="gone"):
        list(a_transport(lambda _: a_stream(error)).live("/v1/events"))
