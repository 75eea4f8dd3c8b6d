"""Every page, asked by every kind of visitor: none is shown more than they may see."""

from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from fastapi.routing import APIRoute

from grus.dashboard import static_files
from grus.dashboard.mounting import mount
from tests.dashboard.sweeps import put_sweep, put_trial
from tests.server.house import RUN, House
from tests.server.test_routes import TABLE as API


class Cell(NamedTuple):
    """Statuses that a stranger without a session, the viewer, the member and the administrator get."""

    anonymous: int
    viewer: int
    member: int
    admin: int


LOOK = Cell(303, 200, 200, 200)
TABLE: dict[str, Cell] = {
    "GET /": LOOK,
    "GET /admin": LOOK,
    "GET /graphs/{id}": LOOK,
    "GET /history": LOOK,
    "GET /history.json": LOOK,
    "GET /history/buy": LOOK,
    "GET /history/report.html": LOOK,
    "POST /history/buy": Cell(401, 403, 403, 403),
    "GET /jobs": LOOK,
    "GET /jobs.json": LOOK,
    "GET /jobs/{id}": LOOK,
    "GET /jobs/{id}/charts.json": LOOK,
    "GET /live/graphs/{id}": LOOK,
    "GET /live/jobs": LOOK,
    "GET /live/jobs/{id}": LOOK,
    "GET /live/pool": LOOK,
    "GET /live/queues": LOOK,
    "GET /live/simulation": LOOK,
    "GET /live/sweeps/{id}": LOOK,
    "GET /pool/outlook": LOOK,
    "GET /queues": LOOK,
    "GET /runs": LOOK,
    "GET /runs/compare": Cell(303, 422, 422, 422),  # of which two nobody has said
    "GET /runs/{id}": LOOK,
    "GET /sign-in": Cell(200, 303, 303, 303),
    "POST /sign-in": Cell(403, 403, 403, 403),  # without an Origin nobody signs in
    "POST /sign-in/codes": Cell(401, 403, 403, 403),  # a session needs its proof; a token alone does
    "POST /sign-out": Cell(401, 403, 403, 403),
    "GET /simulate": LOOK,
    "POST /simulate": Cell(401, 403, 403, 403),  # a cookie alone changes nothing
    "GET /simulate/answer": Cell(303, 404, 404, 404),  # nobody has asked yet
    "POST /simulate/stop": Cell(401, 403, 403, 403),
    "GET /static/{version}/{name}": Cell(200, 200, 200, 200),
    "GET /submit": LOOK,
    "POST /submit": Cell(401, 403, 403, 403),
    "POST /submit/plan": Cell(401, 403, 403, 403),
    "GET /sweeps/{id}": LOOK,
    "GET /sweeps/{id}/charts.json": LOOK,
}
"""As a browser asks that shows the cookie and nothing else."""
VISITORS = {"anonymous": None, "viewer": "vic", "member": "ada", "admin": "admin"}


def routes(house: House) -> set[str]:
    found = set()
    for route in house.app.routes:
        assert isinstance(route, APIRoute)
        found |= {f"{method} {route.path}" for method in route.methods or ()}
    return found - set(API)


def address(house: House, path: str, job: str) -> str:
    if "/sweeps/" in path:
        job = a_sweep(house)
    if path == "/runs/{id}":
        job = RUN
    return path.format(id=job, version=static_files.present(), name="grus.css")


def a_sweep(house: House) -> str:
    made = put_sweep(house.store)
    put_trial(house.store, made, 0, (("lr", 0.01), ("width", 64)), [2.0, 0.5])
    return made.id


def visit(house: House, method: str, path: str, who: str | None) -> httpx2.Response:
    headers = {"Accept": "text/html"}
    if who is not None:
        headers["Cookie"] = f"grus_session={cookie(house, who)}"
    return house.ask(method, path, None, headers=headers)


def cookie(house: House, who: str) -> str:
    form = {"Origin": "http://127.0.0.1:7600", "Content-Type": "application/x-www-form-urlencoded"}
    answer = house.ask("POST", "/sign-in", None, headers=form, content=f"token={who}-token")
    assert answer.status_code == 303, answer.text
    return str(answer.cookies["grus_session"])


def test_the_table_has_every_page_and_no_other(tmp_path: Path) -> None:
    house = House(tmp_path, mount=mount)
    found = routes(house)
    house.close()
    assert found == set(TABLE)


@pytest.mark.parametrize("route", TABLE)
@pytest.mark.parametrize("kind", VISITORS)
def test_each_visitor_gets_exactly_what_the_table_says(tmp_path: Path, route: str, kind: str) -> None:
    house = House(tmp_path, mount=mount)
    job = house.submit()
    house.measure()
    house.streams.close()  # live streams then end at once
    method, path = route.split(" ")
    answer = visit(house, method, address(house, path, job), VISITORS[kind])
    house.close()
    assert answer.status_code == getattr(TABLE[route], kind), answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("route", [route for route in TABLE if route.startswith("GET")])
def test_no_page_shows_a_stranger_the_job_of_a_closed_queue(tmp_path: Path, route: str) -> None:
    house = House(tmp_path, mount=mount)
    job = house.submit()
    house.measure()
    house.streams.close()
    answer = visit(house, "GET", address(house, route.split(" ")[1], job), "eve")
    house.close()
    assert "topsecret" not in answer.text


@pytest.mark.parametrize("route", [route for route in TABLE if route.startswith("GET")])
def test_every_page_is_for_this_server_alone(tmp_path: Path, route: str) -> None:
    """The policy lets nothing in from elsewhere, and no string become a script."""
    house = House(tmp_path, mount=mount)
    job = house.submit()
    house.streams.close()
    answer = visit(house, "GET", address(house, route.split(" ")[1], job), "admin")
    house.close()
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    assert "script-src 'self';" in policy or "script-src" not in policy
    if answer.headers.get("content-type", "").startswith("text/html"):
        assert "base-uri 'none'" in policy
        assert answer.headers["Cache-Control"] == "no-store"
