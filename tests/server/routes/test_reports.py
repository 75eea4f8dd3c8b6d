"""The report over the wire: of what the caller sees, and nothing that he does not."""

import asyncio
import threading
from contextlib import suppress

import pytest

from grus.model.identifiers import JobId
from grus.model.resources import GPU
from grus.server.routes.reports import one_at_a_time
from grus.simulator.workload.history_trace import decode, measured
from tests.controlplane.plane import ADMIN
from tests.server.house import JOB, House


def ran(house: House, who: str = "ada") -> str:
    job = str(house.ask("POST", "/v1/jobs", who, json=JOB).json()["id"])
    house.settle()
    for _ in range(120):
        house.engine.advance(1.0)
        house.measure()
    house.settle()
    return job


def test_what_a_job_has_held_is_reported_to_the_second(house: House) -> None:
    job = ran(house)
    found = house.ask("GET", "/v1/report?last=1h", "admin").json()
    [mine] = found["jobs"]
    assert (mine["id"], mine["ran"]) == (job, 120.0)
    held = house.services.visible.get(ADMIN, JobId(job)).held / GPU
    assert mine["held"]["allocated"] == pytest.approx(120.0 / 3600 * held)
    assert found["hours"]["held"] == mine["held"]
    assert found["hours"]["capacity"] == pytest.approx(4 * 120.0 / 3600)


def test_a_stranger_to_the_queue_sees_neither_the_job_nor_what_it_held(house: House) -> None:
    ran(house)
    found = house.ask("GET", "/v1/report", "eve").json()
    assert (found["jobs"], found["whole"], found["hours"]["held"]["allocated"]) == ([], False, 0.0)
    assert found["hours"]["unwanted"] is None
    assert any("may not see" in note for note in found["notes"])


def test_a_report_of_one_job_is_of_its_whole_life(house: House) -> None:
    job = ran(house)
    house.engine.advance(30 * 86400.0)
    found = house.ask("GET", f"/v1/report?job={job}", "ada").json()
    assert found["jobs"][0]["ran"] == pytest.approx(30 * 86400.0 + 120.0)
    assert house.ask("GET", f"/v1/report?job={job}", "eve").status_code == 404


def test_a_report_of_a_queue_leaves_the_others_out(house: House) -> None:
    ran(house)
    assert house.ask("GET", "/v1/report?queue=vision", "ada").json()["jobs_in_all"] == 1
    assert house.ask("GET", "/v1/report?queue=spare", "ada").json()["jobs_in_all"] == 0
    assert house.ask("GET", "/v1/report?queue=speech", "ada").status_code == 404


def test_the_history_is_what_the_caller_sees_without_what_jobs_run(house: House) -> None:
    body = {**JOB, "run": "a-hidden-command --key x", "env": {"HIDDEN": "hidden-value"}}
    job = str(house.ask("POST", "/v1/jobs", "ada", json=body).json()["id"])
    house.settle()
    house.engine.advance(60.0)
    house.engine.finish(f"{job}.")
    house.settle()
    text = house.ask("GET", "/v1/history?last=1h", "ada").content
    assert b"a-hidden-command" not in text
    assert b"hidden-value" not in text
    found, reported = decode(text), house.ask("GET", "/v1/report?last=1h", "ada").json()
    was = measured(found)
    assert was is not None
    assert [one.job.id for one in found.jobs] == [job]
    assert was.jct_mean == reported["completion"]["completion_mean"]
    stranger = decode(house.ask("GET", "/v1/history?last=1h", "eve").content)
    assert (stranger.jobs, stranger.whole) == ((), False)
    assert house.ask("GET", "/v1/history?last=soon", "ada").status_code == 422


def test_every_mistake_of_a_question_is_named_at_once(house: House) -> None:
    answer = house.ask("GET", "/v1/report?last=-3d&until=noon&target=loss", "ada")
    assert answer.status_code == 422
    assert {one["field"] for one in answer.json()["error"]["mistakes"]} == {"last", "until", "target"}


def test_reports_are_made_one_at_a_time(house: House) -> None:
    """Many who ask at once take no more threads than one."""
    busy, most, lock = 0, 0, threading.Lock()
    meet = threading.Barrier(2, timeout=0.2)

    def work() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        with suppress(threading.BrokenBarrierError):
            meet.wait()  # two at once would meet here
        with lock:
            busy -= 1

    async def many() -> None:
        await asyncio.gather(*(one_at_a_time(house.app, work) for _ in range(3)))

    asyncio.run(many())
    assert (most, busy) == (1, 0)
