"""The page of stages over HTTP: who comes after whom is drawn, and its stream tells what changes."""

import asyncio
import html
from typing import Any

import httpx2
import pytest

from tests.dashboard.routes.test_sweep import told
from tests.server.house import House, events_of

STAGE = {"run": "true", "queue": "vision", "workdir": "/", "resources": {"gpu": 1}}
JOBS = [
    {**STAGE, "name": "prepare"},
    {**STAGE, "name": "topsecret", "after": ["prepare"]},
    {**STAGE, "name": "tell", "after": ["topsecret"], "when": "always"},
]


@pytest.fixture
def jobs(house: House) -> list[str]:
    answer = house.ask("POST", "/v1/graphs", "ada", json={"jobs": JOBS})
    assert answer.status_code == 201, answer.text
    house.settle()
    return [job["id"] for job in answer.json()]


def test_every_stage_is_a_box_that_leads_to_its_job_and_lines_say_who_comes_after_whom(
    house: House, jobs: list[str]
) -> None:
    for asked in jobs:
        text = html.unescape(house.ask("GET", f"/graphs/{asked}", "ada").text)
        for job in jobs:
            assert f'<a href="/jobs/{job}" data-stage="{job}"' in text
        assert f'data-before="{jobs[0]}" data-after="{jobs[1]}"' in text
        shown = told(text)
        assert [stage["status"] for stage in shown["stages"]] == ["running", "pending", "pending"]
        assert shown["summary"] == "3 stages: 1 under way, 2 pending"


def test_the_stages_of_a_job_that_one_may_not_see_are_not_there(house: House, jobs: list[str]) -> None:
    for path in (f"/graphs/{jobs[0]}", f"/live/graphs/{jobs[0]}"):
        assert house.ask("GET", path, "eve").status_code == 404


def test_the_stream_tells_the_stages_that_changed_and_ends_with_the_last(
    house: House, jobs: list[str]
) -> None:
    async def talk(client: httpx2.AsyncClient) -> list[Any]:
        watching = asyncio.create_task(client.get(f"/live/graphs/{jobs[0]}?seconds=20"))
        while not house.streams.count:
            await asyncio.sleep(0)
        for job in reversed(jobs):
            assert (await client.post(f"/v1/jobs/{job}/stop")).status_code == 200
        house.settle()
        house.engine.now += 60
        house.settle()
        return events_of((await watching).text)

    events = house.run(talk, "ada")
    parts = [data for kind, data, _ in events if kind == "graph"]
    assert [stage["id"] for stage in parts[0]["stages"]] == jobs
    assert parts[-1]["summary"] == "3 stages: 3 stopped"
    assert events[-1][0] == "end"
