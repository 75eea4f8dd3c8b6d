"""That the attacks notice what they look for; the attacks themselves are `python -m tests.trust.attack`."""

from typing import Any

import pytest

from tests.trust import attack, intrusion, routes
from tests.trust.asking import Answer
from tests.trust.projects import CALLERS, marks_in

OUTSIDE = next(caller for caller in CALLERS if caller.name == "member of another project")
NOBODY = CALLERS[0]
GOOD: dict[str, Any] = {
    "cases": 10,
    **dict.fromkeys(attack.WRONGS, 0),
    "routes": 2,
    "routes_tested": 2,
    "routes_described": 1,
    "routes_reached": 1,
    "route_wrongs": [],
    "got_through": [],
}


def kinds(caller: Any, answer: Answer, path: str = "/v1/jobs") -> list[str]:
    asked = routes.Question("GET /v1/jobs", path, None)
    return [wrong.kind for wrong in routes.judged(caller, asked, answer, ["jvictim"])]


def test_every_route_of_the_app_has_a_line_in_a_table_of_roles() -> None:
    found = routes.in_the_app()
    everybody = {route: {caller.name for caller in CALLERS} for route in found}
    assert routes.tested(found, everybody) == found
    assert len(found) > 80


def test_a_route_that_nobody_outside_has_asked_is_not_tested() -> None:
    found = {"GET /v1/jobs", "GET /v1/unknown"}
    everybody = {route: {caller.name for caller in CALLERS} for route in found}
    assert routes.tested(found, everybody) == {"GET /v1/jobs"}
    assert routes.tested(found, {"GET /v1/jobs": {"admin", "viewer"}}) == set()


def test_what_is_not_theirs_is_a_leak_and_what_they_said_themselves_is_not() -> None:
    assert kinds(OUTSIDE, Answer(200, body='[{"name": "Q7name7q"}]')) == ["leaks"]
    assert kinds(OUTSIDE, Answer(200, body="jvictim")) == ["leaks"]
    assert kinds(OUTSIDE, Answer(404, body="there is no q7name7q"), "/v1/jobs/q7name7q") == []
    assert marks_in("Q7Log7Q, q7env7q, q7, 7q") == {"log", "env"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(200), "open_doors"),
        (Answer(404), "open_doors"),
        (Answer(303, head="Location: /elsewhere"), "open_doors"),
        (Answer(500), "server_errors"),
        (Answer(0), "server_errors"),
    ],
)
def test_whoever_has_no_token_is_only_told_so(answer: Answer, kind: str) -> None:
    assert kind in kinds(NOBODY, answer)
    assert kinds(NOBODY, Answer(401)) == []
    assert kinds(NOBODY, Answer(303, head="Location: /sign-in?next=x")) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"server_errors": 1},
        {"schema_breaks": 1},
        {"leaks": 1},
        {"open_doors": 1},
        {"route_wrongs": ["x"]},
        {"got_through": ["x"]},
        {"routes_tested": 1},
        {"routes_reached": 0},
        {"not_fuzzed": "there is no network"},
    ],
)
def test_every_figure_can_break_the_promise(changed: dict[str, Any]) -> None:
    assert attack.broken(GOOD) == []
    assert attack.broken({**GOOD, **changed}) == list(changed)


def test_an_attack_that_gets_through_is_seen() -> None:
    assert intrusion.refused(Answer(400)) == ""
    assert intrusion.refused(Answer(200)) != ""
    assert intrusion.refused(Answer(500)) != ""
    assert intrusion.refused(Answer(0)) != ""
    assert intrusion.refused_or_cut(Answer(0, closed=True)) == ""
    assert intrusion.refused_or_cut(Answer(0, closed=False)) != ""
    two = Answer(400, head="HTTP/1.1 400 Bad", body="HTTP/1.1 200 OK")
    assert intrusion._one_answer(two) != ""


def test_attacks_from_inside_count_with_the_others() -> None:
    outer = {"attacks": 10, "survived": 9, "got_through": ["x"]}
    inner = {"inside": {"Unix users": 3, "bubblewrap": 4}, "inside_through": ["y"]}
    found = attack.with_inside(outer, inner)
    assert (found["attacks"], found["survived"], found["got_through"]) == (17, 15, ["x", "y"])
    assert found["inside"] == inner["inside"]
