"""The gate in front of everything: hosts, origins, tokens, rates; and what leaves hardened."""

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.interfaces import User
from grus.server.http.auth_middleware import Gate, hostname
from grus.server.http.rate_limit import RateLimit

TOKEN = {"Authorization": "Bearer good"}


def whoami(secret: str) -> User:
    if secret not in ("good", "another"):
        raise NotLoggedIn("nobody has this token")
    return User(name=UserName("ada"))


async def hello(request: Any) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def broken(request: Any) -> PlainTextResponse:
    raise RuntimeError("the password is 1234")


def a_gate(rate: float = 1000.0) -> Gate:
    app = Router([Route("/healthz", hello), Route("/v1/jobs", hello), Route("/broken", broken)])
    return Gate(
        app, whoami=whoami, hosts=("127.0.0.1",), origins=("https://ui.example",), limit=RateLimit(rate, rate)
    )


def ask(path: str, gate: Gate | None = None, /, **headers: str) -> httpx2.Response:
    async def asked() -> httpx2.Response:
        transport = httpx2.ASGITransport(gate or a_gate())
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7600") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(asked())


def code(response: httpx2.Response) -> str:
    found = response.json()["error"]["code"]
    assert isinstance(found, str)
    return found


def test_only_healthz_answers_without_a_token() -> None:
    assert ask("/healthz").status_code == 200
    for path in ("/v1/jobs", "/nothing", "/healthz/", "/healthz/x", "//healthz", "/docs", "/openapi.json"):
        response = ask(path)
        assert (response.status_code, code(response)) == (401, "not_logged_in"), path
        assert response.headers["WWW-Authenticate"] == "Bearer"


def test_a_known_token_comes_through() -> None:
    assert ask("/v1/jobs", **TOKEN).text == "hello"


@pytest.mark.parametrize("given", ["Bearer bad", "Bearer ", "bearer", "Basic good", "good", ""])
def test_anything_but_a_known_bearer_token_is_refused(given: str) -> None:
    assert ask("/v1/jobs", Authorization=given).status_code == 401


def test_another_host_name_is_refused_even_with_a_token() -> None:
    response = ask("/v1/jobs", Host="evil.example", **TOKEN)
    assert (response.status_code, code(response)) == (421, "wrong_host")
    assert ask("/v1/jobs", **TOKEN, Host="127.0.0.1:7600@evil.example").status_code == 421
    assert ask("/healthz", Host="evil.example").status_code == 421


def test_two_host_names_are_no_name_even_if_one_is_ours() -> None:
    async def asked(*hosts: str) -> int:
        transport = httpx2.ASGITransport(a_gate())
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7600") as client:
            headers = [("Host", host) for host in hosts] + list(TOKEN.items())
            return (await client.get("/v1/jobs", headers=headers)).status_code

    assert asyncio.run(asked("127.0.0.1")) == 200
    assert asyncio.run(asked("127.0.0.1", "evil.example")) == 421
    assert asyncio.run(asked("evil.example", "127.0.0.1")) == 421


def test_pages_of_other_sites_are_refused_and_own_or_listed_ones_are_not() -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        assert ask("/v1/jobs", Origin=origin, **TOKEN).status_code == 403, origin
    for origin in ("http://127.0.0.1:7600", "https://ui.example"):
        assert ask("/v1/jobs", Origin=origin, **TOKEN).status_code == 200, origin


def test_a_surprise_leaves_an_id_and_no_cause(caplog: pytest.LogCaptureFixture) -> None:
    response = ask("/broken", **TOKEN)
    assert response.status_code == 500
    assert "1234" not in response.text
    assert "Traceback" not in response.text
    number = response.json()["error"]["message"].rpartition(" ")[2].rstrip(".")
    assert any(number in record.getMessage() and record.exc_info for record in caplog.records)


def test_every_answer_is_hardened() -> None:
    for response in (ask("/healthz"), ask("/v1/jobs"), ask("/broken", **TOKEN)):
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_who_asks_too_often_is_told_when_to_come_back_whichever_token_they_use() -> None:
    gate = a_gate(rate=2)
    tokens = (TOKEN, {"Authorization": "Bearer another"}, TOKEN, {"Authorization": "Bearer another"})
    assert [ask("/v1/jobs", gate, **token).status_code for token in tokens] == [200, 200, 429, 429]
    assert 0 < float(ask("/v1/jobs", gate, **TOKEN).headers["Retry-After"]) <= 0.5


def test_a_bucket_fills_again_with_time() -> None:
    now = [0.0]
    limit = RateLimit(10, 1, clock=lambda: now[0])
    limit.check("t")
    now[0] = 0.1
    limit.check("t")
    limit.check("another person has a bucket of their own")


def test_web_sockets_are_closed_at_the_door() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    asyncio.run(a_gate()({"type": "websocket", "path": "/v1/jobs", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("header", "name"),
    [("a:1", "a"), ("A", "a"), ("[::1]:7600", "[::1]"), ("[::1]", "[::1]"), ("", ""), ("a:b:1", "a:b")],
)
def test_the_port_is_no_part_of_a_host_name(header: str, name: str) -> None:
    assert hostname(header) == name
