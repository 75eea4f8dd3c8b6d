"""The page of a sweep over HTTP: its trials are there, text stays text, and its stream tells what changes."""

import asyncio
import html
import json
import re
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from grus.model.interfaces import Event
from grus.model.jobs import Job, Phase
from grus.model.sweep_search import Axis
from tests.dashboard.sweeps import SEARCH, put_sweep, put_trial
from tests.server.house import House, events_of

WROTE = "<script>alert(1)</script>&'\""


@pytest.fixture
def sweep(house: House) -> Job:
    made = put_sweep(house.store)
    put_trial(house.store, made, 0, (("lr", 0.01), ("width", 64)), [2.0, 0.5])
    put_trial(house.store, made, 1, (("lr", 0.1), ("width", 128)), [3.0], Phase.STOPPED)
    put_trial(house.store, made, 2, (("lr", 0.3), ("width", 64)), [], Phase.PENDING)
    return made


def told(text: str) -> dict[str, Any]:
    """What the page gives to its script."""
    found = re.search(r'<script type="application/json" id="told">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_page_has_a_line_a_trial_and_names_the_best(house: House, sweep: Job) -> None:
    answer = house.ask("GET", f"/sweeps/{sweep.id}", "ada")
    shown = told(answer.text)
    assert [(row["number"], row["value"], row["status"]) for row in shown["trials"]] == [
        (0, 0.5, "succeeded"),
        (1, 3.0, "stopped"),
        (2, None, "pending"),
    ]
    assert (shown["best"]["number"], shown["best"]["value"]) == (0, "0.5")
    assert shown["texts"]["states"] == "1 pending, 2 ended"
    assert shown["buttons"]["pause"] == ""
    assert told(house.ask("GET", f"/sweeps/{sweep.id}", "vic").text)["buttons"]["pause"] != ""


def test_charts_are_figures_of_the_very_trials(house: House, sweep: Job) -> None:
    found = house.ask("GET", f"/sweeps/{sweep.id}/charts.json", "ada").json()
    assert set(found) == {"history", "parallel", "importance", "curves"}
    dots = {trace["name"]: trace for trace in found["history"]["data"]}
    assert (dots["ended"]["y"], dots["stopped early"]["y"]) == ([0.5], [3.0])


def test_what_people_wrote_is_text_on_the_page(house: House) -> None:
    search = replace(SEARCH, metric=WROTE, axes=(Axis(name=WROTE, choices=(WROTE, "b")),))
    made = put_sweep(house.store, search=search, name=WROTE)
    put_trial(house.store, made, 0, ((WROTE, WROTE),), [1.0])
    text = house.ask("GET", f"/sweeps/{made.id}", "ada").text
    assert "<script>alert" not in text
    assert html.unescape(text).count(WROTE) >= 4


def test_a_sweep_that_one_may_not_see_and_a_job_that_is_none_are_not_there(house: House, sweep: Job) -> None:
    other = house.submit()
    for path in ("/sweeps/{}", "/sweeps/{}/charts.json", "/live/sweeps/{}"):
        assert house.ask("GET", path.format(sweep.id), "eve").status_code == 404
        assert house.ask("GET", path.format(other), "admin").status_code == 404


def test_the_page_of_its_job_leads_to_it_and_that_of_a_trial_names_it(house: House, sweep: Job) -> None:
    answer = house.ask("GET", f"/jobs/{sweep.id}", "ada")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/sweeps/{sweep.id}")
    assert house.ask("GET", f"/jobs/{sweep.id}", "eve").status_code == 404
    trial = house.ask("GET", f"/jobs/{sweep.id}t1", "ada").text
    assert f'trial 1 of <a href="/sweeps/{sweep.id}">' in trial
    assert "lr 0.1, width 128" in trial


def test_the_stream_begins_with_all_tells_the_trial_that_changed_and_ends_with_the_sweep(
    house: House, sweep: Job
) -> None:
    def write(job: Job, **changes: Any) -> None:
        event = Event(at=house.engine.now, kind="change", text="It changed.", job=job.id)
        house.store.replace(replace(job, **changes), event).result()

    async def talk(client: httpx2.AsyncClient) -> list[Any]:
        watching = asyncio.create_task(client.get(f"/live/sweeps/{sweep.id}?seconds=20"))
        while not house.streams.count:
            await asyncio.sleep(0)
        waiting = house.store.job(house.store.jobs(limit=1)[0].id)
        write(waiting, phase=Phase.STOPPED, ended_at=house.engine.now)
        write(house.store.job(sweep.id), phase=Phase.SUCCEEDED, ended_at=house.engine.now)
        return events_of((await watching).text)

    events = house.run(talk, "ada")
    parts = [data for kind, data, _ in events if kind == "sweep"]
    assert [row["number"] for row in parts[0]["trials"]] == [0, 1, 2]
    last = {row["number"]: row["status"] for part in parts for row in part.get("trials", [])}
    assert last == {0: "succeeded", 1: "stopped", 2: "stopped"}
    assert all(len(part.get("trials", [])) <= 1 for part in parts[1:])
    assert parts[-1]["texts"]["status"] == "succeeded"
    assert events[-1][0] == "end"
