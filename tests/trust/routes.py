"""Every route there is, taken from the app itself, asked by everybody at a real server.

`tests/server/test_routes.py` and `tests/dashboard/test_routes.py` say which status each role gets, and fail
where a route has no such line. Here the same routes are asked with another project's token, session and
forms, about things that exist: nothing of them may come back, nothing of them may change. Run by `attack`.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fastapi.routing import APIRoute

from grus.dashboard import static_files
from grus.dashboard.mounting import mount
from grus.server.http.auth_middleware import PUBLIC, SIGN_IN, STATIC
from tests.dashboard.test_routes import TABLE as PAGES
from tests.server.house import JOB, House
from tests.server.test_routes import TABLE as API
from tests.trust.asking import Answer, Door
from tests.trust.projects import (
    CALLERS,
    CLOSED,
    ENDED,
    FINGERPRINT,
    OWNER,
    SWEEP,
    Caller,
    Projects,
    digest,
    mark,
    marks_in,
)

LISTENED = 0.5
"""Seconds that a live stream is listened to from its first byte on."""
DEV = "GET /dev/{id}/"
"""The one way into the second app, on the port of development sessions."""
OWN_AFFAIRS = {
    "POST /sign-in",
    "POST /sign-in/codes",
    "POST /sign-out",
    "POST /simulate",
    "POST /simulate/stop",
    "PUT /v1/secrets/{name}",
    "DELETE /v1/secrets/{name}",
}
"""What everybody may do: it concerns nobody but them."""


class Question(NamedTuple):
    route: str
    path: str
    body: Any


class Wrong(NamedTuple):
    kind: str
    text: str


def in_the_app() -> set[str]:
    """All routes, pages included, as `METHOD /path`."""
    with TemporaryDirectory() as folder:
        house = House(Path(folder), mount=mount)
        found = {
            f"{method} {route.path}"
            for route in house.app.routes
            if isinstance(route, APIRoute)
            for method in route.methods or ()
        }
        others = [route for route in house.app.routes if not isinstance(route, APIRoute)]
        house.close()
    assert not others, f"not known here: {others}"
    return found | {DEV}


def question(route: str, pool: Projects) -> Question:
    """The route with the first project's things in its place-holders and its body."""
    path = route.split(" ")[1]
    made, runs, _ = pool.live
    ids = {"/sweeps/": SWEEP, "/runs/": ENDED, "/artefacts/": made, "/nodes/": "node-0"}
    names = {"/users/": OWNER, "/artefacts/": mark("artefact"), STATIC: "grus.css", "/secrets/": "own"}
    node = next((one for part, one in ids.items() if part in path), runs)
    name = next((one for part, one in names.items() if part in path), CLOSED)
    version = static_files.present()
    filled = path.format(
        id=node,
        name=name,
        digest=digest("grus_member"),
        fingerprint=FINGERPRINT,
        other=ENDED,
        version=version,
    )
    if path.endswith(("/series", "/forecast")):
        filled += f"?of=job&name={runs}&measure=host_memory"
    if path == "/runs/compare":
        filled += f"?run={ENDED}&run={made}"
    return Question(route, filled, _body(route))


def _body(route: str) -> Any:
    text = f"name: x\nqueue: {CLOSED}\nrun: echo\nworkdir: /\n"
    special: dict[str, Any] = {
        "POST /v1/jobs": {**JOB, "queue": CLOSED},
        "POST /v1/graphs": {"jobs": [{**JOB, "queue": CLOSED}]},
        "POST /v1/tokens": {"user": OWNER},
        "PUT /v1/users/{name}": {"role": "admin"},
        "POST /submit": {"text": text},
        "POST /submit/plan": {"text": text},
        "POST /simulate": {},
    }
    return special.get(route, API[route].body if route in API else None)


def doors(pool: Projects, caller: Caller, route: str) -> Iterator[Door]:
    """The ways in which this caller can come: with a token, and to pages with a browser's session."""
    if route == DEV:
        yield pool.sessions_door(caller.token)
        return
    yield Door(pool.address, caller.token)
    if caller.known and route not in API:
        yield Door(pool.address, caller.token).signed_in()


def ask(door: Door, asked: Question) -> Answer:
    live = "/live/" in asked.path or asked.path.endswith("/stream")
    return door.ask(asked.route.split(" ")[0], asked.path, asked.body, listen=LISTENED if live else None)


def judged(caller: Caller, asked: Question, answer: Answer, ids: list[str]) -> Iterator[Wrong]:
    """What is wrong with this answer to this caller."""
    what = f"{answer.status} to {caller.name}: {asked.route}"
    if answer.status == 0 or answer.status >= 500:
        yield Wrong("server_errors", f"{what}: {answer.text[:300]}")
    public = asked.path in PUBLIC or asked.path == SIGN_IN or asked.path.startswith(STATIC)
    to_sign_in = answer.status == 303 and f"location: {SIGN_IN}" in answer.head.lower()
    if not caller.known and not public and answer.status != 401 and not to_sign_in:
        yield Wrong("open_doors", what)
    if caller.inside:
        return
    question = f"{asked.path} {json.dumps(asked.body)}"
    news = (marks_in(answer.text) - marks_in(question)) | {
        id_ for id_ in ids if id_ in answer.text and id_ not in question
    }
    if news:
        yield Wrong("leaks", f"{what}: {sorted(news)}")


def changes(route: str) -> bool:
    return not route.startswith("GET") and route not in OWN_AFFAIRS


def asked_by(caller: Caller, route: str) -> bool:
    """Those who may change things would change what is asked after them: here they only look. What they may
    do is in the tables of the tests."""
    return not changes(route) or not caller.inside or caller.name == "viewer"


def state(pool: Projects) -> list[str]:
    """Everything that somebody outside could have changed, as an administrator sees it."""
    grus = pool.grus
    jobs = [(job.id, job.name, job.phase, job.desired, job.queue) for job in grus.jobs(limit=1000)]
    queues = [queue.model_dump(include={"name", "quota", "members", "limit"}) for queue in grus.queues()]
    people = [user.model_dump() for user in grus.users()]
    tokens = [token.digest for token in grus.tokens()]
    return [str(sorted(map(str, part))) for part in (jobs, queues, people, tokens)]


def walked(pool: Projects) -> dict[str, Any]:
    """Ask all; figures, with every wrong that was found."""
    all_routes = in_the_app()
    before = state(pool)
    wrongs: list[Wrong] = []
    answered: dict[str, set[str]] = {}
    count = 0

    def one(route: str, caller: Caller) -> tuple[str, str, list[Answer], Question]:
        asked = question(route, pool)
        return route, caller.name, [ask(door, asked) for door in doors(pool, caller, route)], asked

    pairs = [(route, caller) for route in sorted(all_routes) for caller in CALLERS if asked_by(caller, route)]
    with ThreadPoolExecutor(8) as threads:
        for (_, caller), (route, name, answers, asked) in zip(
            pairs, threads.map(lambda pair: one(*pair), pairs), strict=True
        ):
            answered.setdefault(route, set()).add(name)
            count += len(answers)
            for answer in answers:
                wrongs += judged(caller, asked, answer, pool.live)
    after = state(pool)
    if after != before:
        wrongs.append(Wrong("changes", f"{before} became {after}"))
    return {
        "routes": len(all_routes),
        "routes_tested": len(tested(all_routes, answered)),
        "route_answers": count,
        "route_wrongs": [f"{wrong.kind}: {wrong.text}" for wrong in wrongs],
    }


def tested(all_routes: set[str], answered: dict[str, set[str]]) -> set[str]:
    """Routes with a line in a table of roles that were also asked by all outside, and by the viewer."""
    outside = {caller.name for caller in CALLERS if not caller.inside} | {"viewer"}
    tables = set(API) | set(PAGES) | {DEV}
    return {route for route in all_routes if route in tables and answered.get(route, set()) >= outside}
