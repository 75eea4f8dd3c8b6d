"""Bad requests: every mistake named, nothing stored, no traceback, always the same form."""

import json
from typing import Any

import httpx2
import pytest

from tests.api.bad_inputs import BAD_REQUESTS, BadJob
from tests.server.house import JOB, House


def mistakes(response: httpx2.Response) -> list[dict[str, Any]]:
    assert response.status_code == 422, response.text
    error = response.json()["error"]
    assert error["code"] == "bad_input"
    assert "Traceback" not in response.text
    found = error["mistakes"]
    assert isinstance(found, list)
    return found


def assert_nothing_stored(house: House) -> None:
    assert house.store.jobs() == []
    assert house.store.events() == []


@pytest.mark.parametrize("one", BAD_REQUESTS, ids=lambda one: one.name)
def test_every_mistake_of_a_bad_job_is_named_and_nothing_is_stored(house: House, one: BadJob) -> None:
    told = mistakes(house.ask("POST", "/v1/jobs", content=json.dumps(one.request()).encode()))
    for expected in one.mistakes:
        assert any(
            mistake["field"] == expected.field and expected.words in mistake["rule"] for mistake in told
        ), f"{expected} is not among {told}"
    assert len(told) == len(one.mistakes)
    assert_nothing_stored(house)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"3", b'"x"', b"\xff\xfe", b"{" * 100_000, b'{"run": "\\ud800"}']
)
def test_a_body_that_is_no_job_is_bad_input(house: House, body: bytes) -> None:
    assert mistakes(house.ask("POST", "/v1/jobs", content=body))
    assert_nothing_stored(house)


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/v1/jobs?limit=0", None, "limit"),
        ("GET", "/v1/jobs?limit=ten", None, "limit"),
        ("GET", "/v1/jobs?phase=asleep", None, "phase[0]"),
        ("GET", "/v1/events?after=-1", None, "after"),
        ("POST", "/v1/jobs?plan=perhaps", JOB, "plan"),
        ("POST", "/v1/jobs?paln=true", JOB, "paln"),
        ("PUT", "/v1/queues/spare", {"quota": "many"}, "quota"),
        ("PUT", "/v1/queues/spare", {"quoat": 1}, "quoat"),
        ("PUT", "/v1/queues/default", {"quota": 0.3}, "queues.default.quota"),
        ("PUT", "/v1/queues/No%20Name", {}, "name"),
        ("PUT", "/v1/users/x", {"role": "king"}, "role"),
        ("POST", "/v1/tokens", {}, "user"),
        ("DELETE", "/v1/tokens/short", None, "digest"),
    ],
)
def test_other_requests_are_answered_in_the_same_form(
    house: House, method: str, path: str, body: Any, field: str
) -> None:
    told = mistakes(house.ask(method, path, json=body))
    assert field in [mistake["field"] for mistake in told]


HUGE = 10**400
"""A number of JSON that no float can hold."""


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs", {**JOB, "resources": {"gpu": HUGE}}),
        ("POST", "/v1/jobs", {**JOB, "resources": {"cpu": HUGE}}),
        ("POST", "/v1/jobs", {**JOB, "max_runtime": HUGE}),
        ("POST", "/v1/jobs", {**JOB, "checkpoint": {"grace": HUGE}}),
        ("PUT", "/v1/queues/spare", {"quota": HUGE}),
        ("PUT", "/v1/queues/spare", {"weight": HUGE}),
        ("PUT", "/v1/queues/spare", {"dev_limit": HUGE}),
        ("POST", "/v1/tokens", {"user": "bob", "expires": HUGE}),
        ("GET", f"/v1/events?after={2**63}", None),
        ("GET", f"/v1/jobs/j1/events?after={2**63}", None),
    ],
)
def test_a_number_too_large_for_anything_is_bad_input(
    house: House, method: str, path: str, body: Any
) -> None:
    assert mistakes(house.ask(method, path, json=body))


def test_a_job_that_never_fits_is_refused_with_the_nearest_that_would(house: House) -> None:
    response = house.ask("POST", "/v1/jobs", json={**JOB, "resources": {"gpu": 64}})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "does_not_fit")
    assert_nothing_stored(house)


def test_a_key_that_is_too_long_is_bad_input(house: House) -> None:
    headers = {"Idempotency-Key": "k" * 201}
    assert mistakes(house.ask("POST", "/v1/jobs", json=JOB, headers=headers))


def test_unknown_things_are_404_in_the_same_form(house: House) -> None:
    for path in ("/v1/jobs/j0000000000", "/v1/jobs/..%2f..%2fetc", "/v1/nothing", "/nothing"):
        response = house.ask("GET", path)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found"), path


def test_a_wrong_method_is_told(house: House) -> None:
    response = house.ask("PATCH", "/v1/jobs")
    assert (response.status_code, response.json()["error"]["code"]) == (405, "method_not_allowed")
