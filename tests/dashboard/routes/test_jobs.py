"""The Jobs page over HTTP: each sees their own, lines are text, and the stream tells what changed."""

import asyncio
import html
import re
from dataclasses import replace
from typing import Any

import httpx2

from grus.dashboard.live_state.job_index import JobFilter
from grus.dashboard.mounting import mount
from grus.server.app import create_app
from tests.scheduler.builders import a_job
from tests.server.house import House, events_of


def listed(house: House, who: str, query: str = "") -> set[str]:
    text = house.ask("GET", f"/jobs{query}", who, headers={"Accept": "text/html"}).text
    return set(re.findall(r'<tr data-id="([^"]+)"', text))


def test_each_sees_in_the_list_what_they_may_see(house: House) -> None:
    secret = house.submit(name="topsecret")
    open_ = house.submit("bob", name="open", queue="spare")
    for who in ("ada", "vic", "admin"):
        assert listed(house, who) == {secret, open_}
    assert listed(house, "eve") == {open_}
    assert house.ask("GET", "/jobs.json", "eve").json() == {"ids": [open_], "total": 1}
    assert "topsecret" not in house.ask("GET", "/jobs", "eve").text
    assert "vision" not in house.ask("GET", "/jobs", "eve").text


def test_the_address_filters_and_sorts(house: House) -> None:
    names = ("whale", "ant", "bee")
    ids = {name: house.submit(name=name, resources={"gpu": 1}) for name in names}
    assert listed(house, "ada", "?q=ant") == {ids["ant"]}
    assert house.ask("GET", "/jobs.json?sort=name", "ada").json()["ids"] == [
        ids["ant"],
        ids["bee"],
        ids["whale"],
    ]
    assert house.ask("GET", "/jobs.json?state=failed", "ada").json()["total"] == 0


def test_what_people_wrote_is_text_on_the_page(house: House) -> None:
    wrote = "<script>alert(1)</script>&'\""
    job = a_job(wrote, queue=wrote, user=wrote)
    house.app.state.board.take([replace(job, reason=wrote, version=1)])
    text = house.ask("GET", "/jobs", "admin").text
    assert "<script>alert" not in text
    assert (
        html.unescape(text).count(wrote) >= 6
    )  # id, name, user, queue, reason, and the lists to choose from


def test_the_stream_begins_with_the_whole_and_then_tells_what_changed(house: House) -> None:
    first = house.submit(name="first", resources={"gpu": 1})

    async def talk(client: httpx2.AsyncClient) -> list[Any]:
        watching = asyncio.create_task(client.get("/live/jobs?q=first&seconds=2"))
        while not house.streams.count:
            await asyncio.sleep(0)
        for name in ("first-too", "other"):
            body = {"run": "x", "name": name, "queue": "vision", "workdir": "/"}
            assert (await client.post("/v1/jobs", json=body)).status_code == 201
        return events_of((await watching).text)

    told = house.run(talk, "ada")
    assert told.pop()[0] == "reconnect"
    assert {kind for kind, _, _ in told} == {"jobs"}
    rows = [row for _, data, _ in told for row in data.get("rows", ())]
    assert [row["name"] for row in rows if row["id"] == first] == ["first"]  # told once: it did not change
    assert {row["name"] for row in rows} == {"first", "first-too"}
    last = next(data["figures"] for _, data, _ in reversed(told) if "figures" in data)
    assert (last["total"], last["everything"]) == (2, 3)
    order = next(data["order"] for _, data, _ in reversed(told) if "order" in data)
    assert len(order) == 2
    assert first in order


def test_a_stream_tells_nobody_of_jobs_that_they_may_not_see(house: House) -> None:
    house.submit(name="topsecret")
    text = house.ask("GET", "/live/jobs?seconds=0.05", "eve").text
    assert "topsecret" not in text
    assert "ada" not in text


def test_jobs_from_before_the_start_are_on_the_list(house: House) -> None:
    old = house.submit()
    app = create_app(house.services, pulse=house.loop.pulse, mount=mount)  # as after a restart

    async def begun() -> list[str]:
        async with app.router.lifespan_context(app):
            while not app.state.board.full:
                await asyncio.sleep(0)
            return [row.id for row in app.state.board.look(JobFilter(), lambda _, __: True).rows]

    assert asyncio.run(begun()) == [old]
