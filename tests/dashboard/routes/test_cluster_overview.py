"""The pool's page and its stream: right for each viewer, and no more than what changed."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from grus.dashboard.mounting import mount
from grus.telemetry.virtual_gpus import parse_pool
from tests.server.house import House, events_of

HTML = {"Accept": "text/html"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    built = House(tmp_path, mount=mount)
    yield built
    built.close()


def page(house: House, who: str = "ada", path: str = "/") -> str:
    response = house.ask("GET", path, who, headers=HTML)
    assert response.status_code == 200, response.text
    return response.text


def mark(text: str) -> str:
    found = re.search(r'data-mark="([^"]+)"', text)
    assert found is not None
    return found[1]


def stream(house: House, since: str, who: str = "ada") -> list[tuple[str, Any, str]]:
    response = house.ask("GET", f"/live/pool?since={since}&seconds=0.05", who)
    assert response.status_code == 200, response.text
    return events_of(response.text)


def test_the_page_shows_who_is_on_which_gpu(house: House) -> None:
    job = house.submit(name="resnet", resources={"gpu": 2})
    text = page(house)
    assert text.count(f'href="/jobs/{job}"') == 2
    assert text.count('class="gpu free') == 2
    assert "2 of 4 held" in text


def test_a_job_that_one_may_not_see_is_somebodys(house: House) -> None:
    job = house.submit(name="topsecret", resources={"gpu": 1})
    text = page(house, "eve")
    assert job not in text
    assert "topsecret" not in text
    assert text.count("hidden-job") == 1
    assert text.count('class="gpu free') == 3


def test_ones_own_tiles_are_marked(house: House) -> None:
    house.submit("ada", resources={"gpu": 1})
    assert len(re.findall(r'class="gpu mine', page(house, "ada"))) == 1
    assert "gpu mine" not in page(house, "vic")


def test_the_stream_tells_the_tiles_that_changed_and_no_others(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    since = mark(page(house))
    house.engine.exit(job)
    house.settle()
    ((kind, told, id_), *rest) = stream(house, since)
    assert kind == "pool"
    assert [(one["place"], one["css"], one["slices"]) for one in told["tiles"]] == [(0, "gpu free", [])]
    assert told["sums"]["held"] == "0"
    assert told["nodes"] == [{"place": 0, "held": "0 of 4 held", "closed": "", "closed_title": ""}]
    assert [kind for kind, _, _ in rest] == ["reconnect"]
    again = stream(house, id_)[0][1]
    assert (again["tiles"], again["use"], again["nodes"]) == ([], [], [])


def test_the_stream_hides_from_strangers_what_the_page_hides(house: House) -> None:
    since = mark(page(house, "eve"))
    house.submit(name="topsecret", resources={"gpu": 1})
    told = stream(house, since, "eve")
    assert told[0][0] == "pool"
    assert "topsecret" not in str(told)
    assert told[0][1]["tiles"][0]["slices"][0]["href"] == ""


def test_a_job_that_only_waits_changes_the_sums_and_no_tile(house: House) -> None:
    since = mark(page(house))
    house.submit(resources={"gpu": 4})
    house.submit(resources={"gpu": 4})
    house.app.state.pool_now._measured = float("-inf")  # as after the seconds between two looks
    told = stream(house, since)[0][1]
    assert told["sums"]["waiting"] == "1"


def test_what_is_measured_arrives_as_use(house: House) -> None:
    house.submit(resources={"gpu": 1})
    since = mark(page(house))
    house.measure()
    house.app.state.pool_now._measured = float("-inf")  # as after the seconds between two looks
    told = stream(house, since)[0][1]
    assert [one[0] for one in told["use"]]
    assert told["tiles"] == []


def test_a_commit_wakes_the_stream(house: House) -> None:
    since = mark(page(house))

    async def talk(client: httpx2.AsyncClient) -> list[tuple[str, Any, str]]:
        watching = asyncio.create_task(client.get(f"/live/pool?since={since}&seconds=1"))
        while not house.streams.count:
            await asyncio.sleep(0)
        body = {"run": "x", "queue": "vision", "workdir": "/", "resources": {"gpu": 1}}
        assert (await client.post("/v1/jobs", json=body)).status_code == 201
        await asyncio.to_thread(house.loop.settle, house.engine.now)
        return events_of((await watching).text)

    told = house.run(talk, "ada")
    assert any(one["slices"] for kind, data, _ in told if kind == "pool" for one in data["tiles"])


@pytest.mark.parametrize("since", ["", "nonsense", "0000.1.1", "a.b.c"])
def test_a_page_of_an_earlier_server_is_told_to_load_again(house: House, since: str) -> None:
    assert [kind for kind, _, _ in stream(house, since)] == ["reload"]


def test_a_page_is_told_to_load_again_when_there_are_other_gpus(house: House) -> None:
    since = mark(page(house))
    house.engine.pool = parse_pool("1x8x16GB")
    house.loop.refresh()
    assert [kind for kind, _, _ in stream(house, since)] == ["reload"]
    assert len(re.findall(r'id="g\d', page(house))) == 8


def test_a_cordon_is_shown_without_loading_again(house: House) -> None:
    since = mark(page(house))
    assert house.ask("POST", "/v1/nodes/node-0/cordon").status_code == 204
    assert stream(house, since)[0][1]["nodes"][0]["closed"] == "cordoned"


def test_nodes_can_be_seen_by_type(house: House) -> None:
    house.engine.pool = parse_pool("1x2x16GB:A100+1x1x8GB:T4+1x2x16GB:A100")
    house.loop.refresh()
    text = page(house, path="/?by=type")
    assert [text.index(f">{name}<") for name in ("node-0", "node-2", "node-1")] == sorted(
        text.index(f">{name}<") for name in ("node-0", "node-2", "node-1")
    )
    assert "4 GPUs" in text


def test_a_pool_without_gpus_says_so(house: House) -> None:
    house.engine.pool = ()
    house.loop.refresh()
    assert "The pool has no GPUs yet" in page(house)


def test_the_outlook_says_what_is_missing_for_one(house: House) -> None:
    told = house.ask("GET", "/pool/outlook", "ada").json()["text"]
    assert told.startswith("No forecast yet: ")


def test_names_of_people_and_jobs_are_text(house: House) -> None:
    house.engine.pool = tuple(replace(node, id="<i>node</i>") for node in house.engine.pool)  # type: ignore[arg-type]  # no id would be like that
    house.loop.refresh()
    assert "<i>node" not in page(house)
