"""The app of the sessions' port, in front of a pretended session: who passes, and what is passed on."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from grus.model.identifiers import JobId
from grus.server.session_proxy.cookie_auth import DevGate
from grus.server.session_proxy.proxy import DevProxy
from grus.server.session_proxy.session_access import DevSessions, OneTimeLinks, Origins
from tests.server.house import House, digest

SECRET = "the-secret-of-the-session"
PORT = 7601


class Pretended:
    """A session that says what it was asked with, and echoes what it is told."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[Request] = []

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        self.asked.append(request)
        if request.headers.get("Authorization") != f"token {SECRET}":
            return connection.respond(403, "who is it?")
        if "Upgrade" in request.headers:
            return None
        return connection.respond(200, f"you asked for {request.path}")

    async def echo(self, connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)


class World:
    """A server's house with one session, its proxy, and a client that is let in or not."""

    def __init__(self, house: House, job: JobId, pretended: Pretended, recheck: float) -> None:
        self.house, self.job, self.pretended = house, job, pretended
        self.doorway = OneTimeLinks(Origins("http", "*.localhost", PORT), lambda: 0.0)
        self.sessions = DevSessions(b"k" * 32, house.services.accounts.holder, lambda: house.engine.now)
        gate = DevGate(house.services, self.sessions, self.doorway)
        self.proxy = DevProxy(gate, lambda _: {"text": "a word"}, recheck=recheck)
        self.origin = self.doorway.origins.of(job)

    def cookie(self, who: str = "ada") -> dict[str, str]:
        return {"Cookie": f"grus_dev_{self.job}={self.sessions.cookie(self.job, digest(who))}"}

    async def ask(self, method: str, path: str, headers: dict[str, str], **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(self.proxy)
        async with httpx2.AsyncClient(transport=transport, base_url=self.origin) as client:
            return await client.request(method, f"/dev/{self.job}/{path}", headers=headers, **options)

    def socket(self, headers: dict[str, str]) -> "Socket":
        return Socket(self, {"Host": self.origin.partition("//")[2], "Origin": self.origin, **headers})


class Socket:
    """The browser's end of a web socket, as the app sees it."""

    def __init__(self, world: World, headers: dict[str, str]) -> None:
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        path = f"/dev/{world.job}/echo"
        scope = {"type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b""}
        self._in: asyncio.Queue[Any] = asyncio.Queue()
        self._out: asyncio.Queue[Any] = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        running = world.proxy({**scope, "headers": raw, "subprotocols": []}, self._in.get, self._out.put)
        self.task = asyncio.ensure_future(running)

    def send(self, **message: Any) -> None:
        self._in.put_nowait({"type": "websocket.receive", **message})

    async def next(self) -> Any:
        async with asyncio.timeout(20):
            return await self._out.get()


Talk = Callable[[World], Awaitable[None]]


def played(tmp_path: Path, talk: Talk, recheck: float = 60.0) -> None:
    """Let somebody talk to the proxy of a house with a session of ada's."""
    house = House(tmp_path)

    @asynccontextmanager
    async def there() -> AsyncIterator[Pretended]:
        pretended = Pretended()
        async with serve(pretended.echo, "127.0.0.1", 0, process_request=pretended.answer) as server:
            pretended.port = next(iter(server.sockets)).getsockname()[1]
            yield pretended

    async def whole(job: JobId) -> None:
        async with there() as pretended:
            place = {"address": f"127.0.0.1:{pretended.port}", "secret": SECRET}
            house.engine.rings(f"{job}.", json.dumps({"endpoint": place}))
            await talk(World(house, job, pretended, recheck))

    try:
        job = house.submit(type="dev", resources={"gpu": 1})
        house.engine.up(job)
        house.settle()
        house._runner.run(whole(job))
    finally:
        house.close()


def test_the_owner_reaches_the_session_which_sees_its_own_secret_and_nothing_of_theirs(
    tmp_path: Path,
) -> None:
    async def talk(world: World) -> None:
        got = await world.ask("GET", "api/x?y=%2F1", {**world.cookie(), "Authorization": "Bearer mine"})
        assert (got.status_code, got.text) == (200, f"you asked for /dev/{world.job}/api/x?y=%2F1")
        (asked,) = world.pretended.asked
        assert "mine" not in str(asked.headers)
        assert "grus" not in asked.headers.get("Cookie", "")
        told = await world.ask("GET", "grus/notice", world.cookie())
        assert told.json() == {"text": "a word"}

    played(tmp_path, talk)


@pytest.mark.parametrize(
    ("who", "headers", "status"),
    [
        (None, {}, 401),
        (None, {"Authorization": "Bearer ada-token"}, 401),
        ("vic", {}, 403),
        ("admin", {}, 403),
        ("eve", {}, 404),
        ("ada", {"Host": f"jabcdefghjk.localhost:{PORT}"}, 421),
        ("ada", {"Host": "evil.example"}, 421),
        ("ada", {"Origin": "http://127.0.0.1:7600"}, 403),
        ("ada", {"Origin": "null"}, 403),
        ("ada", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("ada", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
def test_nobody_else_and_nothing_from_elsewhere_passes(
    tmp_path: Path, who: str | None, headers: dict[str, str], status: int
) -> None:
    async def talk(world: World) -> None:
        cookie = {} if who is None else world.cookie(who)
        assert (await world.ask("GET", "api", {**cookie, **headers})).status_code == status
        assert world.pretended.asked == []

    played(tmp_path, talk)


def test_a_change_without_an_origin_is_refused(tmp_path: Path) -> None:
    async def talk(world: World) -> None:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            got = await world.ask(method, "api/contents/x", world.cookie(), content=b"{}")
            assert got.status_code == 403
        assert world.pretended.asked == []

    played(tmp_path, talk)


def test_messages_pass_both_ways_as_they_are(tmp_path: Path) -> None:
    async def talk(world: World) -> None:
        socket = world.socket(world.cookie())
        assert (await socket.next())["type"] == "websocket.accept"
        for message in ({"text": "grüß"}, {"bytes": bytes(range(256)) * 1000}):
            socket.send(**message)
            assert await socket.next() == {"type": "websocket.send", **message}
        socket._in.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await asyncio.wait_for(socket.task, 20)

    played(tmp_path, talk)


@pytest.mark.parametrize("headers", [{"Origin": "http://127.0.0.1:7600"}, {"Cookie": "grus_dev=x"}])
def test_a_web_socket_from_elsewhere_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    async def talk(world: World) -> None:
        socket = world.socket({**world.cookie(), **headers})
        assert (await socket.next())["type"] == "websocket.close"
        assert world.pretended.asked == []

    played(tmp_path, talk)


def test_an_open_connection_ends_when_its_token_is_taken_back(tmp_path: Path) -> None:
    async def talk(world: World) -> None:
        socket = world.socket(world.cookie())
        assert (await socket.next())["type"] == "websocket.accept"
        services = world.house.services
        services.accounts.delete_token(services.accounts.whoami("admin-token"), digest("ada"))
        assert (await socket.next())["code"] == 1008
        await asyncio.wait_for(socket.task, 20)

    played(tmp_path, talk, recheck=0.05)


def test_a_session_that_is_gone_is_told_in_words(tmp_path: Path) -> None:
    async def talk(world: World) -> None:
        world.house.engine.rings(f"{world.job}.", "{}")
        got = await world.ask("GET", "lab", world.cookie())
        assert (got.status_code, got.json()["error"]["code"]) == (409, "conflict")

    played(tmp_path, talk)


def test_who_leaves_in_the_middle_of_a_request_is_no_surprise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk(world: World) -> None:
        path = f"/dev/{world.job}/api"
        headers = {
            "Host": world.origin.partition("//")[2],
            "Origin": world.origin,
            "Content-Length": "9",
            **world.cookie(),
        }
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
        }
        heard: asyncio.Queue[Any] = asyncio.Queue()
        heard.put_nowait({"type": "http.request", "body": b"half", "more_body": True})
        heard.put_nowait({"type": "http.disconnect"})
        said: asyncio.Queue[Any] = asyncio.Queue()
        await asyncio.wait_for(world.proxy({**scope, "headers": raw}, heard.get, said.put), 20)
        assert said.empty()

    played(tmp_path, talk)
    assert not [record for record in caplog.records if record.name == "grus.server.http.errors"]
