"""The page of a job over HTTP: what it tells is true, text stays text, and its stream tells what changes."""

import asyncio
import html
import json
import re
from typing import Any

import httpx2

from grus.dashboard.live_state.job_detail import JobView
from grus.model.identifiers import JobId
from grus.scheduler.explain import Explanation
from tests.server.house import House, events_of

WROTE = "<script>alert(1)</script>&'\""


def told(text: str) -> dict[str, Any]:
    """What the page gives to its script."""
    found = re.search(r'<script type="application/json" id="told">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_page_tells_how_a_job_stands_why_and_what_happened(house: House) -> None:
    job = house.submit(name="resnet", resources={"gpu": 2})
    answer = house.ask("GET", f"/jobs/{job}", "ada")
    shown = told(answer.text)
    assert "resnet" in answer.text
    assert (shown["texts"]["status"], shown["texts"]["gpus"]) == ("running", "2")
    assert [row["kind"] for row in shown["events"]] == ["submitted", "starting", "running"]
    assert shown["why"]["sentence"].startswith("2 GPUs on node-0")
    assert shown["buttons"]["pause"] == ""
    assert told(house.ask("GET", f"/jobs/{job}", "vic").text)["buttons"]["pause"] != ""


def test_a_job_that_waits_says_who_holds_what_it_waits_for(house: House) -> None:
    first = house.submit(name="first", resources={"gpu": 4}, queue="spare")
    second = house.submit(name="second", resources={"gpu": 4}, queue="spare")
    shown = told(house.ask("GET", f"/jobs/{second}", "ada").text)
    assert shown["texts"]["status"] == "pending"
    assert shown["why"]["holders"] == [{"job": first, "name": "first", "gpus": "4"}]


def test_what_people_wrote_is_text_on_the_page(house: House) -> None:
    job = house.submit(run=WROTE, setup=[WROTE], data=[WROTE])
    text = house.ask("GET", f"/jobs/{job}", "ada").text
    assert "<script>alert" not in text
    assert html.unescape(text).count(WROTE) >= 3


def test_a_job_that_one_may_not_see_is_not_there(house: House) -> None:
    job = house.submit()
    for path in (f"/jobs/{job}", f"/jobs/{job}/charts.json", f"/live/jobs/{job}"):
        assert house.ask("GET", path, "eve").status_code == 404
        assert house.ask("GET", path.replace(job, "jnothing"), "admin").status_code == 404


def test_charts_are_figures_or_say_what_is_missing(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    found = house.ask("GET", f"/jobs/{job}/charts.json", "ada").json()
    assert set(found) == {"use", "memory", "power", "loss", "throughput", "others"}
    assert all("missing" in figure or {"data", "layout"} <= set(figure) for figure in found.values())
    refused = house.ask("GET", f"/jobs/{job}/charts.json?back=-1", "ada")
    assert refused.status_code == 422


def test_the_stream_begins_with_the_whole_tells_what_changes_and_ends_with_the_job(house: House) -> None:
    job = house.submit(resources={"gpu": 1})

    async def talk(client: httpx2.AsyncClient) -> list[Any]:
        watching = asyncio.create_task(client.get(f"/live/jobs/{job}?seconds=20"))
        while not house.streams.count:
            await asyncio.sleep(0)
        assert (await client.post(f"/v1/jobs/{job}/stop")).status_code == 200
        house.settle()
        house.engine.now += 60
        house.settle()
        return events_of((await watching).text)

    events = house.run(talk, "ada")
    parts = [data for kind, data, _ in events if kind == "job"]
    assert {"texts", "moments", "buttons", "why", "strip", "workers"} <= set(parts[0])
    assert parts[-1]["texts"]["status"] == "stopped"
    assert events[-1][0] == "end"
    seqs = [row["seq"] for kind, data, _ in events if kind == "events" for row in data]
    assert seqs == sorted(set(seqs))


def test_events_that_were_read_are_not_read_again(house: House) -> None:
    job = JobId(house.submit())
    look = JobView(house.services, house.services.accounts.whoami("ada-token"), job).learn()
    look.now(house.engine.now)
    asked: list[int] = []
    read = house.services.jobs.events
    house.services.jobs.events = lambda *a, **k: asked.append(k["after"]) or read(*a, **k)  # type: ignore[method-assign, func-returns-value]  # to see what is asked for
    look.now(house.engine.now)
    assert asked == [look.events[-1].seq]


def test_an_explanation_that_took_long_is_not_asked_for_again_at_once(house: House) -> None:
    """It is the scheduler that explains, and it has other things to do."""
    house.submit(resources={"gpu": 4}, queue="spare")
    job = house.submit(resources={"gpu": 4}, queue="spare")
    passed = [0.0]
    asked: list[float] = []
    explain = house.services.jobs.why

    def slow(*given: Any) -> Explanation:
        asked.append(passed[0])
        passed[0] += 0.5
        return explain(*given)

    house.services.jobs.why = slow  # type: ignore[method-assign, assignment]  # one that takes half a second
    look = JobView(house.services, house.services.accounts.whoami("ada-token"), job, clock=lambda: passed[0])
    for _ in range(30):
        look.now(house.engine.now)
        passed[0] += 1.0
    assert asked == [0.0, 20.5]
    house.services.actions.pause(house.services.accounts.whoami("ada-token"), job)
    look.now(house.engine.now)
    assert len(asked) == 3  # the job itself has changed
