"""Every route of the app, asked by every kind of caller: none gets more than it may."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.routing import APIRoute

from grus.model.identifiers import JobId
from grus.server.http.auth_middleware import PUBLIC
from tests.server.house import JOB, RUN, SWEEP, House, digest


class Cell(NamedTuple):
    """Statuses that the viewer and the member of the job's queue, a stranger to it, and the admin get."""

    viewer: int
    member: int
    stranger: int
    admin: int
    body: Any = None


LOOK = Cell(200, 200, 200, 200)
"""Everybody may ask; each sees their own part."""
JOB_LOOK = Cell(200, 200, 404, 200)
JOB_ACT = Cell(403, 200, 404, 200)
ADMIN = Cell(403, 403, 403, 204)

TABLE: dict[str, Cell] = {
    "POST /v1/jobs": Cell(403, 201, 403, 201, JOB),
    "POST /v1/graphs": Cell(403, 201, 403, 201, {"jobs": [JOB, {**JOB, "name": "b"}]}),
    "GET /v1/graphs/{id}": JOB_LOOK,
    "POST /v1/jobs/{id}/retry": Cell(403, 409, 404, 403),
    "GET /v1/jobs": LOOK,
    "GET /v1/jobs/{id}": JOB_LOOK,
    "POST /v1/jobs/{id}/stop": JOB_ACT,
    "POST /v1/jobs/{id}/pause": JOB_ACT,
    "POST /v1/jobs/{id}/resume": JOB_ACT,
    "POST /v1/jobs/{id}/scale": JOB_ACT._replace(body={"size": 1}),
    "POST /v1/jobs/{id}/session": Cell(409, 409, 404, 409),
    "POST /v1/jobs/{id}/predict": Cell(409, 409, 404, 409, {"inputs": [1]}),
    "GET /v1/jobs/{id}/why": JOB_LOOK,
    "GET /v1/jobs/{id}/events": JOB_LOOK,
    "GET /v1/jobs/{id}/curves": JOB_LOOK,
    "GET /v1/jobs/{id}/workers": JOB_LOOK,
    "GET /v1/jobs/{id}/log": JOB_LOOK,
    "GET /v1/jobs/{id}/log/stream": JOB_LOOK,
    "GET /v1/jobs/{id}/profile": JOB_LOOK,
    "GET /v1/runs": LOOK,
    "GET /v1/runs/{id}": JOB_LOOK,
    "GET /v1/runs/{id}/diff/{other}": JOB_LOOK,
    "GET /v1/jobs/{id}/artefacts/{name}": Cell(403, 404, 404, 404),  # it has left nothing behind
    "GET /v1/profiles": LOOK,
    "GET /v1/profiles/{fingerprint}": Cell(404, 200, 404, 200),
    "GET /v1/events": LOOK,
    "GET /v1/usage": LOOK,
    "GET /v1/usage/stream": LOOK,
    "GET /v1/queues": LOOK,
    "PUT /v1/queues/{name}": ADMIN._replace(admin=200, body={"quota": 0}),
    "DELETE /v1/queues/{name}": ADMIN,
    "PUT /v1/queues/{name}/members/{member}": ADMIN._replace(admin=200),
    "DELETE /v1/queues/{name}/members/{member}": Cell(403, 403, 403, 404),  # nobody is a member of it
    "GET /v1/nodes": LOOK,
    "POST /v1/nodes/{id}/cordon": ADMIN,
    "POST /v1/nodes/{id}/uncordon": ADMIN,
    "POST /v1/nodes/{id}/drain": ADMIN._replace(body={"message": "new disks"}),
    "GET /v1/status": LOOK,
    "GET /v1/users": LOOK,
    "PUT /v1/users/{name}": ADMIN._replace(admin=200, body={"role": "admin"}),
    "DELETE /v1/users/{name}": ADMIN,
    "GET /v1/audit": ADMIN._replace(admin=200),
    "GET /v1/tokens": LOOK,
    "POST /v1/tokens": ADMIN._replace(admin=201, body={"user": "bob"}),
    "DELETE /v1/tokens/{digest}": Cell(404, 404, 404, 204),
    "GET /v1/secrets": LOOK,
    "PUT /v1/secrets/{name}": Cell(403, 204, 204, 204, {"value": "q7secret7q"}),
    "DELETE /v1/secrets/{name}": Cell(404, 404, 404, 404),
    "GET /v1/notifications": ADMIN._replace(admin=200),
    "POST /v1/notifications/test": ADMIN._replace(admin=200, body={}),
    "GET /v1/openapi.json": LOOK,
    "GET /v1/telemetry": LOOK,
    "GET /v1/telemetry/series": JOB_LOOK,
    "GET /v1/forecast": JOB_LOOK,
    "GET /v1/history": LOOK,
    "GET /v1/report": LOOK,
    "GET /v1/sweeps/{id}": JOB_LOOK,
    "GET /v1/sweeps/{id}/best": Cell(409, 409, 404, 409),
    "GET /metrics": LOOK,
    "GET /healthz": LOOK,
}
CALLERS = {"viewer": "vic", "member": "ada", "stranger": "eve", "admin": "admin"}


def routes(house: House) -> set[str]:
    found = set()
    for route in house.app.routes:
        assert isinstance(route, APIRoute), f"{route} is not known to this test"
        found |= {f"{method} {route.path}" for method in route.methods or ()}
    return found


def address(route: str, job: str) -> tuple[str, str]:
    """The route with things of `ada`, `bob` and the pool in its place-holders."""
    method, path = route.split(" ")
    name = "bob" if "/users/" in path else "spare"
    node = "node-0" if "/nodes/" in path else RUN if "/runs/" in path else job
    asks = path.endswith(("/series", "/forecast"))
    question = f"?of=job&name={job}&measure=host_memory" if asks else ""
    filled = path.format(
        id=node, name=name, digest=digest("bob"), fingerprint="f00d", other=RUN, member="bob"
    )
    return method, filled + question


def submitted(house: House, route: str) -> JobId:
    """What the route is asked about: a job, or a sweep."""
    return house.submit(sweep=SWEEP) if "/sweeps/" in route else house.submit()


def test_the_table_has_every_route_and_no_other(house: House) -> None:
    assert routes(house) == set(TABLE)


@pytest.mark.parametrize("route", TABLE)
def test_without_a_token_nothing_answers_but_what_is_public(house: House, route: str) -> None:
    method, path = address(route, submitted(house, route))
    for who in (None, "nobody"):
        response = house.ask(method, path, who, json=TABLE[route].body)
        assert response.status_code == (200 if path in PUBLIC else 401)
        assert "topsecret" not in response.text
    assert len(house.store.jobs()) == 1


@pytest.mark.parametrize("route", TABLE)
@pytest.mark.parametrize("kind", CALLERS)
def test_each_caller_gets_exactly_what_the_table_says(tmp_path: Path, route: str, kind: str) -> None:
    house = House(tmp_path)
    method, path = address(route, submitted(house, route))
    house.measure()
    house.streams.close()  # live streams then end at once
    response = house.ask(method, path, CALLERS[kind], json=TABLE[route].body)
    house.close()
    assert response.status_code == getattr(TABLE[route], kind), response.text
    assert "Traceback" not in response.text
    if kind == "stranger":
        assert "topsecret" not in response.text
        assert '"vision"' not in response.text


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/v1", "/v1/jobs", "/v1/nothing", "/docs", "/redoc", "/openapi.json"])
def test_no_method_of_no_path_answers_without_a_token(house: House, method: str, path: str) -> None:
    assert house.ask(method, path, None).status_code == 401
