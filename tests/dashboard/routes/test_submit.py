"""The Submit page over HTTP: plans and mistakes with their lines, and all jobs of a file or none."""

from typing import Any

import pytest

from grus.dashboard.routes.submit import place_of
from grus.dashboard.views.job_examples import EXAMPLES
from tests.server.house import House

STAGES = """\
name: first
run: echo 1
queue: vision
workdir: /
---
name: second
run: echo 2
queue: vision
after: [first]
workdir: /
"""


def planned(house: House, text: str, who: str = "ada", folder: str = "/") -> Any:
    response = house.ask("POST", "/submit/plan", who, json={"text": text, "folder": folder})
    assert response.status_code == 200, response.text
    return response.json()


def submitted(house: House, text: str, who: str = "ada", **more: str) -> Any:
    return house.ask("POST", "/submit", who, json={"text": text, "folder": "/", **more})


@pytest.mark.parametrize("name", [name for name, _ in EXAMPLES])
def test_every_example_is_a_job_file_that_fits_this_pool(house: House, name: str) -> None:
    text = dict(EXAMPLES)[name].replace("name: ", "queue: vision\nname: ")
    found = planned(house, text.replace("queue: default", "queue: vision"))
    assert found["mistakes"] == []
    assert found["jobs"]
    assert all(job["plan"]["fits"] for job in found["jobs"])


def test_a_plan_says_what_would_become_of_each_job_and_stores_nothing(house: House) -> None:
    found = planned(house, STAGES)["jobs"]
    assert [(job["name"], job["queue"], job["request"], job["plan"]["starts"]) for job in found] == [
        ("first", "vision", "1", "now"),
        ("second", "vision", "1", "later"),
    ]
    assert house.ask("GET", "/v1/jobs").json() == []


def test_mistakes_of_form_come_all_at_once_with_their_lines(house: House) -> None:
    found = planned(house, "name: Bad Name\nrun: x\nresources:\n  gpus: 5\nretries: -1\n")
    assert [(one["field"], one["line"]) for one in found["mistakes"]] == [
        ("name", 1),
        ("resources.gpus", 4),
        ("retries", 5),
    ]
    assert "did you mean gpu" in found["mistakes"][1]["rule"]


def test_mistakes_that_only_the_server_knows_of_have_lines_too(house: House) -> None:
    found = planned(
        house, "run: x\nqueue: nowhere\n---\nname: b\nrun: y\nafter: [j0000000000]\nqueue: vision\n"
    )
    assert [(one["field"], one["line"]) for one in found["mistakes"]] == [("queue", 2), ("after[0]", 6)]


def test_what_can_never_fit_is_told_with_what_would(house: House) -> None:
    (job,) = planned(house, "run: x\nqueue: vision\nresources: {gpu: 64}\n")["jobs"]
    assert (job["plan"]["fits"], job["plan"]["starts"]) == (False, "never")
    assert "nearest" in job["plan"]["sentence"]


def test_a_viewer_is_told_that_they_may_not_submit(house: House) -> None:
    assert "viewer" in planned(house, "run: x\nqueue: vision\n", "vic")["refused"]
    assert submitted(house, "run: x\nqueue: vision\n", "vic").status_code == 403


def test_all_jobs_of_a_file_are_submitted_and_stages_wait_for_each_other(house: House) -> None:
    response = submitted(house, STAGES)
    assert response.status_code == 201
    first, second = response.json()["jobs"]
    assert house.ask("GET", f"/v1/jobs/{second['id']}").json()["after"] == [first["id"]]


def test_one_that_would_be_refused_keeps_all_from_being_stored(house: House) -> None:
    response = submitted(house, STAGES.replace("queue: vision\nafter", "queue: nowhere\nafter"))
    assert response.status_code == 422
    assert response.json()["error"]["mistakes"][0]["line"] == 8
    assert house.ask("GET", "/v1/jobs").json() == []


def test_a_submission_that_is_sent_again_finds_its_jobs(house: House) -> None:
    once, twice = (submitted(house, STAGES, key="k").json() for _ in range(2))
    assert once == twice
    assert len(house.ask("GET", "/v1/jobs").json()) == 2


def test_relative_paths_start_from_the_folder_of_the_page(house: House) -> None:
    body = {"text": "run: x\nqueue: vision\nworkdir: work\n", "folder": "/srv/ada"}
    job = house.ask("POST", "/submit", "ada", json=body).json()["jobs"][0]["id"]
    assert house.ask("GET", f"/v1/jobs/{job}").json()["workdir"] == "/srv/ada/work"
    found = planned(house, "run: x\n", folder="srv/ada")
    assert [one["field"] for one in found["mistakes"]] == ["folder"]


def test_jobs_of_sections_find_the_python_that_has_grus(house: House) -> None:
    text = (
        "name: t\nqueue: vision\ntrain: {model: m.py:net, data: m.py:data, loss: cross_entropy, "
        "optimizer: adam, batch: 8, epochs: 1}\n"
    )
    job = submitted(house, text).json()["jobs"][0]["id"]
    house.settle()
    env = dict(house.engine.workers_alive.known[house.engine.find(job)].spec.env)
    assert "bin" in env["PATH"].split(":")[0]


def test_a_field_is_a_place_in_the_file() -> None:
    assert place_of("resources.gpu") == ("resources", "gpu")
    assert place_of("after[1]") == ("after", 1)
    assert place_of("roles.worker.env[0].name") == ("roles", "worker", "env", 0, "name")


@pytest.mark.parametrize("name", ["Stages", "A search for parameters"])
def test_stages_and_searches_are_submitted_from_the_page(house: House, name: str) -> None:
    text = dict(EXAMPLES)[name].replace("name: ", "queue: vision\nname: ")
    found = submitted(house, text.replace("queue: default", "queue: vision"))
    assert found.status_code == 201, found.text
    first = found.json()["jobs"][0]["id"]
    page = "graphs" if name == "Stages" else "sweeps"
    assert house.ask("GET", f"/{page}/{first}", "ada").status_code == 200
