"""Live streams: in order, from where the client stopped, to the end of what they tell of."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.server.http.auth_middleware import Caller
from grus.server.http.event_streams import Streams
from grus.server.routes.events import Pace
from tests.server.house import House, events_of

ONE = {"resources": {"gpu": 1}}
SSE = {"Accept": "text/event-stream"}
ADMIN = User(name=UserName("admin"), role=AccessRole.ADMIN)


def a_caller(verify: Callable[[], User]) -> Caller:
    return Caller(user=ADMIN, token="t", verify=verify)


def stream(house: House, path: str, who: str = "ada", **headers: str) -> list[tuple[str, Any, str]]:
    response = house.ask("GET", path, who, headers={**SSE, **headers})
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/event-stream")
    return events_of(response.text)


def test_the_stream_of_an_ended_job_tells_all_of_it_and_ends(house: House) -> None:
    job = house.submit(**ONE)
    house.engine.exit(job)
    house.settle()
    told = stream(house, f"/v1/events?job={job}&after=0")
    kinds = [data["kind"] for kind, data, _ in told if kind == "event"]
    assert (kinds[0], kinds[-1]) == ("submitted", "succeeded")
    assert told[-1][0] == "end"


def test_a_stream_goes_on_after_the_last_id_without_gap_or_repeat(house: House) -> None:
    job = house.submit(**ONE)
    house.engine.exit(job)
    house.settle()
    every = [id_ for kind, _, id_ in stream(house, f"/v1/events?job={job}&after=0") if kind == "event"]
    rest = stream(house, f"/v1/events?job={job}", **{"Last-Event-ID": every[1]})
    assert [id_ for kind, _, id_ in rest if kind == "event"] == every[2:]


def test_without_an_id_the_stream_begins_now_and_ends_when_its_time_is_over(house: House) -> None:
    house.submit(**ONE)
    assert stream(house, "/v1/events?seconds=0.05") == [("reconnect", {}, "")]


def test_what_happens_while_the_stream_is_open_arrives_at_once(house: House) -> None:
    async def talk(client: httpx2.AsyncClient) -> list[tuple[str, Any, str]]:
        watching = asyncio.create_task(client.get("/v1/events?seconds=1", headers=SSE))
        while not house.streams.count:
            await asyncio.sleep(0)
        await asyncio.to_thread(house.loop.settle, house.engine.now)
        body = {"run": "x", "queue": "vision", "workdir": "/"}
        assert (await client.post("/v1/jobs", json=body)).status_code == 201
        return events_of((await watching).text)

    told = house.run(talk, "ada")
    assert [data["kind"] for kind, data, _ in told if kind == "event"] == ["submitted"]


def test_a_stranger_hears_nothing_of_the_jobs_of_others(house: House) -> None:
    house.submit(**ONE)
    assert stream(house, "/v1/events?after=0&seconds=0.05", "eve") == [("reconnect", {}, "")]


def test_the_list_of_events_is_the_same_as_the_stream(house: House) -> None:
    job = house.submit(**ONE)
    listed = house.ask("GET", "/v1/events?after=1", "ada").json()
    assert listed == house.ask("GET", f"/v1/jobs/{job}/events?after=1", "ada").json()
    told = stream(house, "/v1/events?after=1&seconds=0.05")
    assert [data for kind, data, _ in told if kind == "event"] == listed


def test_the_log_of_an_ended_job_is_told_to_its_end(house: House) -> None:
    job = house.submit(**ONE)
    worker = house.engine.find(job)
    house.engine.workers_alive.logs[worker] = "grüße\n".encode()
    house.engine.exit(job)
    house.settle()
    told = stream(house, f"/v1/jobs/{job}/log/stream")
    assert "".join(data["text"] for kind, data, _ in told if kind == "log") == "grüße\n"
    assert told[-1][0] == "end"
    assert [
        kind for kind, _, _ in stream(house, f"/v1/jobs/{job}/log/stream", **{"Last-Event-ID": told[0][2]})
    ] == ["end"]


def test_half_a_character_waits_for_its_other_half(house: House) -> None:
    job = house.submit(**ONE)
    worker = house.engine.find(job)
    logs = house.engine.workers_alive.logs
    logs[worker] = "a€".encode()[:3]
    house.engine.exit(job)
    house.settle()
    told = [event for event in stream(house, f"/v1/jobs/{job}/log/stream") if event[0] == "log"]
    assert (told[0][1]["text"], told[0][2]) == ("a", "1.1")
    logs[worker] = "a€".encode()
    told = stream(house, f"/v1/jobs/{job}/log/stream", **{"Last-Event-ID": "1.1"})
    assert told[0][1]["text"] == "€"


def test_a_log_can_be_read_in_pieces_from_either_end(house: House) -> None:
    job = house.submit(**ONE)
    house.engine.workers_alive.logs[house.engine.find(job)] = b"0123456789"
    first = house.ask("GET", f"/v1/jobs/{job}/log?limit=4", "ada")
    assert (first.content, first.headers["Grus-Next-Offset"]) == (b"0123", "4")
    assert house.ask("GET", f"/v1/jobs/{job}/log?offset=-3", "ada").content == b"789"
    assert first.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_the_log_of_an_earlier_attempt_is_there_by_its_number(house: House) -> None:
    job = house.submit(**ONE, retries=1)
    house.engine.workers_alive.logs[house.engine.find(job)] = b"first"
    house.engine.exit(job, 1)
    house.settle()
    house.engine.now += 10.0
    house.settle()
    house.engine.workers_alive.logs[house.engine.find(job)] = b"second"
    house.engine.exit(job)
    house.settle()
    path = f"/v1/jobs/{job}/log"
    assert house.ask("GET", f"{path}?attempt=1", "ada").content == b"first"
    assert house.ask("GET", f"{path}?attempt=2", "ada").content == b"second"
    assert house.ask("GET", path, "ada").content == b"second"
    for beyond in (f"{path}?attempt=3", f"{path}/stream?attempt=3"):
        assert house.ask("GET", beyond, "ada").status_code == 404
    assert _texts(stream(house, f"{path}/stream?attempt=1")) == ["first"]
    assert _texts(stream(house, f"{path}/stream", **{"Last-Event-ID": "1.2"})) == ["rst", "second"]


def test_a_stream_says_how_much_log_rotation_has_dropped(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = house.submit(**ONE)
    worker = house.engine.find(job)
    house.engine.exit(job)
    house.settle()
    monkeypatch.setattr(house.engine, "logged", lambda _: (worker,))
    monkeypatch.setattr(house.engine, "log", lambda _, offset, __: (b"rest"[: 104 - max(100, offset)], 104))
    told = [data for kind, data, _ in stream(house, f"/v1/jobs/{job}/log/stream") if kind == "log"]
    assert [(data["text"], data["dropped"]) for data in told] == [("rest", 100)]


def _texts(told: list[tuple[str, Any, str]]) -> list[str]:
    return [data["text"] for kind, data, _ in told if kind == "log"]


def test_an_id_that_no_stream_gave_is_bad_input(house: House) -> None:
    job = house.submit(**ONE)
    for path in ("/v1/events", f"/v1/jobs/{job}/log/stream"):
        for wrong in ("x; y", "1" * 39):
            response = house.ask("GET", path, headers={**SSE, "Last-Event-ID": wrong})
            assert response.status_code == 422


def test_a_token_that_was_taken_back_ends_its_streams(house: House) -> None:
    house.streams.heartbeat = 0.01

    async def talk(client: httpx2.AsyncClient) -> str:
        watching = asyncio.create_task(client.get("/v1/events?seconds=60", headers=SSE))
        while not house.streams.count:
            await asyncio.sleep(0)
        admin = house.services.accounts.whoami("admin-token")
        await asyncio.to_thread(house.services.users.delete, admin, UserName("ada"))
        return (await asyncio.wait_for(watching, 10)).text

    assert events_of(house.run(talk, "ada"))[-1][1]["code"] == "not_logged_in"


def test_a_stream_that_is_never_silent_ends_with_its_token_too() -> None:
    async def talk() -> None:
        pace = Pace(Streams(heartbeat=0.0), a_caller(taken_back), 60)
        with pytest.raises(NotLoggedIn):
            pace.sent()

    def taken_back() -> User:
        raise NotLoggedIn("taken back")

    asyncio.run(talk())


@pytest.mark.parametrize(("role", "ends"), [(AccessRole.ADMIN, False), (AccessRole.VIEWER, True)])
def test_whoever_has_another_role_now_is_asked_to_come_back(role: AccessRole, ends: bool) -> None:
    async def talk() -> bool:
        pace = Pace(Streams(heartbeat=0.0), a_caller(lambda: replace(ADMIN, role=role)), 60)
        pace.sent()
        return pace.over

    assert asyncio.run(talk()) is ends


def test_another_token_of_the_same_person_gets_no_more_streams_and_others_get_theirs(house: House) -> None:
    house.streams._most_each = 1
    second = house.ask("POST", "/v1/tokens", "ada", json={"user": "ada"}).json()["secret"]

    async def talk(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        watching = asyncio.create_task(client.get("/v1/events?seconds=60", headers=SSE))
        while not house.streams.count:
            await asyncio.sleep(0)
        found = []
        for secret in (second, "eve-token"):
            headers = {**SSE, "Authorization": f"Bearer {secret}"}
            found.append(await client.get("/v1/events?seconds=0.01", headers=headers))
        house.streams.close()
        return [*found, await watching]

    refused, *others = house.run(talk, "ada")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
    assert [answer.status_code for answer in others] == [200, 200]


def test_a_stopping_server_tells_its_streams_to_come_back(house: House) -> None:
    async def talk(client: httpx2.AsyncClient) -> str:
        watching = asyncio.create_task(client.get("/v1/usage/stream", headers=SSE))
        while not house.streams.count:
            await asyncio.sleep(0)
        house.streams.close()
        return (await asyncio.wait_for(watching, 10)).text

    assert events_of(house.run(talk))[-1][0] == "reconnect"


def test_a_stream_whose_time_is_over_looks_once(house: House) -> None:
    async def looks() -> list[bool]:
        user = User(name=UserName("ada"))
        pace = Pace(house.streams, Caller(user=user, token="t", verify=lambda: user), 0.0)
        return [not pace.over, not pace.over]

    assert asyncio.run(looks()) == [True, False]
