"""What the routes do beyond who may ask: submit once per key, plan, act, look, measure."""

import hashlib
import json

from grus.controlplane.reconciler.health import ControlLoopHealth
from grus.server.runtime.health import ServerHealth
from tests.server.house import JOB, House


def test_a_submit_is_answered_with_the_stored_job(house: House) -> None:
    response = house.ask("POST", "/v1/jobs", "ada", json=JOB)
    assert response.status_code == 201
    assert house.ask("GET", f"/v1/jobs/{response.json()['id']}", "ada").json() == response.json()


def test_one_job_per_key_and_user(house: House) -> None:
    headers = {"Idempotency-Key": "k"}
    ids = {house.ask("POST", "/v1/jobs", "ada", json=JOB, headers=headers).json()["id"] for _ in range(3)}
    assert len(ids) == 1
    other = house.ask("POST", "/v1/jobs", "ada", json={**JOB, "run": "else"}, headers=headers)
    assert other.status_code == 409
    assert house.ask("POST", "/v1/jobs", "admin", json=JOB, headers=headers).json()["id"] not in ids


def test_a_plan_stores_nothing(house: House) -> None:
    plan = house.ask("POST", "/v1/jobs?plan=true", "ada", json=JOB).json()
    assert (plan["fits"], plan["starts"]) == (True, "now")
    assert house.store.jobs() == []


def test_pages_of_jobs_follow_each_other_and_phases_can_be_chosen(house: House) -> None:
    ids = [house.submit(resources={"gpu": 1}) for _ in range(5)]
    first = house.ask("GET", "/v1/jobs?limit=3", "ada").json()
    second = house.ask("GET", f"/v1/jobs?limit=3&after={first[-1]['id']}", "ada").json()
    assert sorted(job["id"] for job in first + second) == sorted(ids)
    running = house.ask("GET", "/v1/jobs?phase=running&phase=starting", "ada").json()
    assert {job["phase"] for job in running} <= {"running", "starting"}
    assert running


def test_why_names_who_holds_what_a_job_waits_for(house: House) -> None:
    first = house.submit(resources={"gpu": 4}, launch="once")
    waiting = house.submit(resources={"gpu": 4}, launch="once")
    why = house.ask("GET", f"/v1/jobs/{waiting}/why", "ada").json()
    assert why["job"] == waiting
    assert why["sentence"]
    assert [holder["job"] for holder in why["holders"]] in ([first], [])


def test_workers_are_numbered_as_logs_count_them(house: House) -> None:
    job = house.submit(resources={"gpu": 2}, launch="per-gpu")
    workers = house.ask("GET", f"/v1/jobs/{job}/workers", "ada").json()
    assert sorted(worker["number"] for worker in workers) == [0, 1]


def test_a_queue_that_was_put_is_listed_with_its_figures(house: House) -> None:
    made = house.ask("PUT", "/v1/queues/spare", json={"weight": 3, "limit": 4})
    assert made.json()["weight"] == 3
    house.settle()
    listed = {queue["name"]: queue for queue in house.ask("GET", "/v1/queues").json()}
    assert listed["spare"]["limit"] == 4
    assert listed["vision"]["quota"] == 2


def test_queues_of_the_configuration_are_shown_as_such(house: House) -> None:
    listed = {queue["name"]: queue["configured"] for queue in house.ask("GET", "/v1/queues").json()}
    assert listed == {"default": False, "speech": True, "spare": False, "vision": False}
    assert house.ask("PUT", "/v1/queues/speech", json={"quota": 2}).json()["configured"] is True
    assert house.ask("PUT", "/v1/queues/vision", json={"quota": 2}).json()["configured"] is False


def test_nodes_tell_who_holds_their_gpus(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    (node,) = house.ask("GET", "/v1/nodes", "ada").json()
    assert [holder["job"] for gpu in node["gpus"] for holder in gpu["holders"]] == [job]


def test_a_drained_node_shows_its_jobs_that_leave_and_those_that_stay(house: House) -> None:
    saves = house.submit(resources={"gpu": 1}, checkpoint={"path": "/saved"})
    stays = house.submit(resources={"gpu": 1})
    assert house.ask("POST", "/v1/nodes/node-0/drain", json={"message": "disks"}).status_code == 204
    (node,) = house.ask("GET", "/v1/nodes", "ada").json()
    assert (node["drain"]["leave"], node["drain"]["stay"]) == ([saves], [stays])


def test_a_cordoned_node_is_shown_as_such_and_back(house: House) -> None:
    for verb, cordoned in (("cordon", True), ("uncordon", False)):
        assert house.ask("POST", f"/v1/nodes/node-0/{verb}").status_code == 204
        house.settle()
        assert house.ask("GET", "/v1/nodes").json()[0]["cordoned"] is cordoned


def test_a_new_token_works_until_it_is_deleted_and_its_secret_is_shown_once(house: House) -> None:
    made = house.ask("POST", "/v1/tokens", json={"user": "bob", "label": "laptop", "expires": "1d"}).json()
    assert hashlib.sha256(made["secret"].encode()).hexdigest() == made["digest"]
    bearer = {"Authorization": f"Bearer {made['secret']}"}
    assert house.ask("GET", "/v1/status", None, headers=bearer).json()["user"] == "bob"
    assert made["secret"] not in house.ask("GET", "/v1/tokens").text
    assert house.ask("DELETE", f"/v1/tokens/{made['digest']}").status_code == 204
    assert house.ask("GET", "/v1/status", None, headers=bearer).status_code == 401


def test_metrics_tell_of_queues_phases_and_devices_but_never_of_jobs(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    text = house.ask("GET", "/metrics").text
    for line in (
        'grus_queue_held_gpus{queue="vision"} 1.0',
        'grus_queue_quota_gpus{queue="vision"} 2.0',
        'grus_jobs{phase="failed"} 0.0',
        'grus_device_busy{device="node-0/gpu-0",node="node-0"} 1.0',
        "grus_submits_total 1.0",
    ):
        assert line in text
    assert "grus_decide_seconds_count" in text
    assert job not in text
    assert "topsecret" not in text


def test_healthz_is_ok_while_the_loop_acts(house: House) -> None:
    assert house.ask("GET", "/healthz", None).json()["ok"] is True
    house.loop.pulse.stopped = "fenced"
    over = house.ask("GET", "/healthz", None)
    assert (over.status_code, over.json()["ok"]) == (503, False)


def test_a_loop_that_makes_no_pass_for_long_is_unhealthy_until_it_does() -> None:
    now, pulse = [0.0], ControlLoopHealth()
    health = ServerHealth(pulse, clock=lambda: now[0])
    now[0] = 31.0
    assert "no pass for 31 s" in health.wrong()
    pulse.passes += 1
    assert health.wrong() == ""


def test_the_description_names_every_route_and_the_token(house: House) -> None:
    found = house.ask("GET", "/v1/openapi.json").json()
    assert "/v1/jobs/{id}/scale" in found["paths"]
    assert found["security"] == [{"token": []}]
    assert found["paths"]["/healthz"]["get"]["security"] == []
    assert "requestBody" in found["paths"]["/v1/jobs"]["post"]


def test_the_description_tells_how_errors_look_and_names_no_other_form(house: House) -> None:
    found = house.ask("GET", "/v1/openapi.json").json()
    assert "HTTPValidationError" not in json.dumps(found)
    for verbs in found["paths"].values():
        for verb in verbs.values():
            assert "422" not in verb["responses"]
            told = verb["responses"]["default"]["content"]["application/json"]["schema"]
            assert told == {"$ref": "#/components/schemas/Error"}
    inside = found["components"]["schemas"]["Error"]["properties"]["error"]["properties"]
    error = house.ask("GET", "/v1/jobs?limit=0").json()["error"]
    assert set(error) == set(inside)
    assert set(error["mistakes"][0]) == set(inside["mistakes"]["items"]["properties"])
