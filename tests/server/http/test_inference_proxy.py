"""A request to a model reaches a replica that answers; none is lost that could be saved."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
from starlette.responses import Response

from grus.controlplane.workers.endpoints import Endpoint
from grus.model.errors import Conflict
from grus.model.identifiers import WorkerId
from grus.server.http import inference_proxy
from grus.server.http.errors import Refusal
from grus.server.http.inference_proxy import Forwarder, ServedModelStatus

T = TypeVar("T")
SECRET = "s" * 32
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


class Replica:
    """A small HTTP server of one kind of behaviour."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self.asked = 0
        self.address = ""
        self._server: asyncio.Server | None = None

    async def open(self) -> "Replica":
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(WorkerId("w"), self.address, SECRET)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
                await reader.readexactly(length)
                self.asked += 1
                await self._answering(reader, writer, head)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def answers(body: str = "{}", status: int = 200) -> Answering:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        assert f"Authorization: token {SECRET}" in head
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()

    return answered


async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
    """In the middle of its answer."""
    writer.write(b"HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\n{")
    writer.transport.abort()


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
    await reader.read()


def talk(*kinds: Answering, then: Callable[[Forwarder, list[Replica]], Awaitable[T]]) -> T:
    async def whole() -> T:
        replicas = [await Replica(kind).open() for kind in kinds]
        forwarder = Forwarder()
        try:
            return await then(forwarder, replicas)
        finally:
            await forwarder.close()
            for replica in replicas:
                replica.close()

    return asyncio.run(whole())


async def ask(forwarder: Forwarder, replicas: Sequence[Replica], body: bytes = b"{}") -> Response:
    async def look() -> ServedModelStatus:
        return ServedModelStatus([replica.endpoint for replica in replicas], "it is starting")

    return await forwarder.ask(look, body)


def test_requests_go_round_among_those_that_are_ready() -> None:
    async def many(forwarder: Forwarder, replicas: list[Replica]) -> list[int]:
        for _ in range(9):
            assert (await ask(forwarder, replicas)).status_code == 200
        return [replica.asked for replica in replicas]

    assert talk(answers(), answers(), answers(), then=many) == [3, 3, 3]


def test_who_has_most_to_do_is_asked_last() -> None:
    async def many(forwarder: Forwarder, replicas: list[Replica]) -> list[int]:
        stuck = asyncio.create_task(ask(forwarder, replicas[:1]))
        while not replicas[0].asked:
            await asyncio.sleep(0.001)
        for _ in range(4):
            await ask(forwarder, replicas)
        stuck.cancel()
        return [replica.asked for replica in replicas]

    assert talk(never, answers(), then=many) == [1, 4]


def test_one_that_dies_under_a_request_costs_nobody_an_answer() -> None:
    async def many(forwarder: Forwarder, replicas: list[Replica]) -> Counter[int]:
        found = await asyncio.gather(*(ask(forwarder, replicas) for _ in range(20)))
        return Counter(one.status_code for one in found)

    assert talk(dies, answers(), then=many) == {200: 20}


def test_one_that_cannot_be_reached_or_is_busy_or_is_another_is_passed_over() -> None:
    async def many(forwarder: Forwarder, replicas: list[Replica]) -> bytes:
        replicas[0].close()
        return bytes((await ask(forwarder, replicas)).body)

    said = '{"outputs": [1]}'
    assert (
        talk(answers(), answers(status=503), answers(status=401), answers(said), then=many) == said.encode()
    )


def test_a_request_that_ends_replicas_does_not_end_them_all() -> None:
    async def once(forwarder: Forwarder, replicas: list[Replica]) -> int:
        with pytest.raises(Refusal) as caught:
            await ask(forwarder, replicas)
        assert (caught.value.status, caught.value.code) == (502, "broke_off")
        return sum(replica.asked for replica in replicas)

    assert talk(dies, dies, dies, dies, then=once) == 2


def test_while_none_is_ready_a_request_waits_for_the_one_that_comes() -> None:
    async def once(forwarder: Forwarder, replicas: list[Replica]) -> int:
        looks = 0

        async def look() -> ServedModelStatus:
            nonlocal looks
            looks += 1
            return ServedModelStatus([replicas[0].endpoint] if looks > 2 else [], "it is starting")

        return (await forwarder.ask(look, b"{}")).status_code

    assert talk(answers(), then=once) == 200


def test_it_does_not_wait_for_ever_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_proxy, "PATIENCE", 0.05)

    async def once(forwarder: Forwarder, replicas: list[Replica]) -> Refusal:
        with pytest.raises(Refusal) as caught:
            await ask(forwarder, [])
        return caught.value

    refusal = talk(then=once)
    assert (refusal.status, refusal.retry_after) == (503, 1.0)
    assert "it is starting" in refusal.message


def test_a_model_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_proxy, "LONGEST", 0.05)

    async def once(forwarder: Forwarder, replicas: list[Replica]) -> int:
        with pytest.raises(Refusal) as caught:
            await ask(forwarder, replicas)
        return caught.value.status

    assert talk(never, then=once) == 504


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_proxy, "LARGEST_OUTPUTS", 10)

    async def once(forwarder: Forwarder, replicas: list[Replica]) -> str:
        with pytest.raises(Refusal) as caught:
            await ask(forwarder, replicas)
        return caught.value.code

    assert talk(answers("x" * 11), then=once) == "too_large"


@pytest.mark.parametrize(("said", "told"), [(422, 422), (413, 413), (200, 200)])
def test_what_a_model_says_of_the_inputs_is_handed_on(said: int, told: int) -> None:
    async def once(forwarder: Forwarder, replicas: list[Replica]) -> tuple[int, bytes, str]:
        found = await ask(forwarder, replicas)
        return found.status_code, bytes(found.body), found.headers["content-type"]

    assert talk(answers('{"a": 1}', said), then=once) == (told, b'{"a": 1}', "application/json")


def test_a_program_that_fails_is_a_bad_gateway_and_its_words_stay_there() -> None:
    async def once(forwarder: Forwarder, replicas: list[Replica]) -> Refusal:
        with pytest.raises(Refusal) as caught:
            await ask(forwarder, replicas)
        return caught.value

    refusal = talk(answers("a secret of the program", 500), then=once)
    assert refusal.status == 502
    assert "secret" not in refusal.message


def test_more_than_can_be_under_way_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_proxy, "MOST_UNDER_WAY", 1)

    async def once(forwarder: Forwarder, replicas: list[Replica]) -> int:
        stuck = asyncio.create_task(ask(forwarder, replicas))
        while not replicas[0].asked:
            await asyncio.sleep(0.001)
        with pytest.raises(Refusal) as caught:
            await ask(forwarder, replicas)
        stuck.cancel()
        return caught.value.status

    assert talk(never, then=once) == 503


def test_a_job_that_ends_meanwhile_is_told_at_once() -> None:
    async def once(forwarder: Forwarder, replicas: list[Replica]) -> None:
        async def look() -> ServedModelStatus:
            raise Conflict("job has ended")

        with pytest.raises(Conflict, match="has ended"):
            await forwarder.ask(look, b"{}")

    talk(then=once)
