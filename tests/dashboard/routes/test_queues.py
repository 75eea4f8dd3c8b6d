"""The page of queues: the tree with its figures, and rows as they change."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grus.dashboard.mounting import mount
from grus.dashboard.routes.queues import follow
from grus.dashboard.views.queues import FULL, QueueTableRow, rows
from grus.model.identifiers import QueueName, UserName
from grus.model.interfaces import AccessRole, User
from grus.model.resources import GPU
from grus.scheduler.queues.queue_usage_tree import QueueState
from grus.server.http.auth_middleware import Caller
from tests.scheduler.builders import a_queue
from tests.server.house import House, events_of


def a_state(name: str, **gpus: float) -> QueueState:
    """Where a queue stands, in GPUs; without a limit unless one is given."""
    amounts = ("quota", "reserved", "held", "demand", "fair_share")
    given = {amount: round(GPU * gpus.get(amount, 0)) for amount in amounts}
    quota, held = given["quota"], given["held"]
    return QueueState(
        name=QueueName(name),
        parent=None,
        effective_quota=round(GPU * gpus.get("effective", gpus.get("quota", 0))),
        weight=1.0,
        limit=round(GPU * gpus["limit"]) if "limit" in gpus else None,
        borrowed=max(0, held - quota),
        exact_share=float(given["fair_share"]),
        waiting=3,
        running=2,
        state="in quota" if held <= quota else "over quota",
        **given,
    )


def one(**gpus: float) -> QueueTableRow:
    (row,) = rows([a_queue("a", quota=gpus.get("quota", 0))], [a_state("a", **gpus)])
    return row


def test_queues_come_right_after_the_one_above_them() -> None:
    tree = [
        a_queue("b"),
        a_queue("a2", parent="a"),
        a_queue("a"),
        a_queue("a1", parent="a"),
        a_queue("deep", parent="a1"),
    ]
    found = rows(tree, [a_state(queue.name) for queue in tree])
    assert [(row.name, row.depth) for row in found] == [
        ("a", 0),
        ("a1", 1),
        ("deep", 2),
        ("a2", 1),
        ("b", 0),
    ]


def test_what_is_held_is_split_at_the_quota() -> None:
    bar = one(quota=4, held=10, fair_share=8).bar
    assert (bar.quota, bar.held, bar.borrowed, bar.share) == (400, 400, 600, 800)
    assert bar.held + bar.borrowed == FULL
    assert "10 GPUs of a quota of 4, 6 of them borrowed" in bar.label


def test_a_limit_beyond_the_bar_is_told_and_not_drawn() -> None:
    far, near = one(quota=4, limit=100), one(quota=4, held=4, fair_share=8, limit=6)
    assert (far.limit, far.bar.limit) == ("100", None)
    assert (near.limit, near.bar.limit) == ("6", 750)


def test_a_quota_that_is_worth_less_says_so() -> None:
    assert one(quota=8, effective=6).quota == "6 of 8"


def test_what_there_is_none_of_is_a_dash() -> None:
    row = one(quota=2)
    assert (row.reserved, row.borrowed, row.limit, row.bar.reserved) == ("–", "–", "–", None)


def test_rules_are_told_in_words() -> None:
    queue = a_queue("a", quota={"A100": 4}, weight=2, nodes=["n1"])
    (row,) = rows([queue], [a_state("a", quota=4)])
    assert row.rules == "weight 2 · A100 4 · has n1 to itself"


# --------------------------------------------------------------------------------------------- the page


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    built = House(tmp_path, mount=mount)
    yield built
    built.close()


def names(house: House, who: str) -> list[str]:
    text = house.ask("GET", "/queues", who, headers={"Accept": "text/html"}).text
    return re.findall(r'data-queue="([^"]+)"', text)


def test_everybody_sees_the_queues_that_are_theirs(house: House) -> None:
    assert names(house, "admin") == ["default", "spare", "speech", "vision"]
    assert names(house, "eve") == ["default", "spare", "speech"]


def stream(house: House, who: str = "ada") -> list[tuple[str, Any, str]]:
    return events_of(house.ask("GET", "/live/queues?seconds=0.05", who).text)


def test_the_stream_begins_with_all_rows_of_its_viewer(house: House) -> None:
    house.submit(resources={"gpu": 1})
    kind, told, _ = stream(house)[0]
    assert kind == "queues"
    held = {row["name"]: row["held"] for row in told}
    assert held == {"default": "0", "spare": "0", "vision": "1"}


def test_then_it_tells_the_rows_that_change(house: House) -> None:
    async def talk(client: httpx2.AsyncClient) -> list[tuple[str, Any, str]]:
        watching = asyncio.create_task(client.get("/live/queues?seconds=1"))
        while not house.streams.count:
            await asyncio.sleep(0)
        body = {"run": "x", "queue": "vision", "workdir": "/", "resources": {"gpu": 1}}
        await asyncio.to_thread(house.loop.settle, house.engine.now)
        assert (await client.post("/v1/jobs", json=body)).status_code == 201
        await asyncio.to_thread(house.loop.settle, house.engine.now)
        return events_of((await watching).text)

    told = [data for kind, data, _ in house.run(talk, "ada") if kind == "queues"]
    assert len(told[0]) == 3
    assert {row["name"] for rows_told in told[1:] for row in rows_told} <= {"vision", "default"}
    assert told[-1][-1]["held"] == "1"


def test_other_queues_make_the_page_load_again(house: House) -> None:
    admin = User(name=UserName("admin"), role=AccessRole.ADMIN)
    caller = Caller(user=admin, token="t", verify=lambda: admin)

    async def talk(client: httpx2.AsyncClient) -> list[bytes]:
        told = follow(house.services, caller, house.streams, 60)
        begun = [await anext(told), await anext(told)]
        assert (await client.put("/v1/queues/new", json={"quota": 0})).status_code == 200
        house.streams.poke()
        return [*begun, *[piece async for piece in told]]

    kinds = [kind for kind, _, _ in events_of(b"".join(house.run(talk, "admin")).decode())]
    assert kinds == ["queues", "reload"]
