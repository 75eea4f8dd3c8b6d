"""The Simulate page over HTTP: the form's mistakes, jobs with the asker's rights, the simulator's answer."""

from typing import Any

import pytest

from grus.dashboard.whatif.simulation_form import SimulatedPool, WhatIfIn, judged, question
from grus.model.errors import BadInput
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from tests.server.house import House

ADA = User(name=UserName("ada"))
EVE = User(name=UserName("eve"))
ADMIN = User(name=UserName("admin"), role=AccessRole.ADMIN)
SMALL: dict[str, Any] = {"source": "synthetic", "days": 0.5, "jobs": 30}


def wrong(house: House, who: str = "ada", **form: Any) -> list[str]:
    answer = house.ask("POST", "/simulate", who, json={**SMALL, **form})
    assert answer.status_code == 422, answer.text
    return [one["field"] for one in answer.json()["error"]["mistakes"]]


def asked(house: House, user: User = ADA, **form: Any) -> Any:
    wanted = WhatIfIn(**{**SMALL, **form})
    return question(wanted, judged(wanted, house.services, user), house.services, user)


def finished(house: House, who: str = "ada", **changes: Any) -> None:
    """A job that ran for a minute and has ended."""
    job = house.submit(who, resources={"gpu": 1}, **changes)
    house.engine.now += 60.0
    house.engine.finish(f"{job}.")
    house.settle()


def test_every_mistake_of_the_form_is_told_at_once_and_nothing_is_started(house: House) -> None:
    assert wrong(house, add_nodes="many", faults="1s", policy="magic", remove=["gone"]) == [
        "faults",
        "remove",
        "add-nodes",
        "policy",
    ]
    assert house.app.state.plays.of(ADA) is None


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"load": 0}, "load"),
        ({"seeds": 11}, "seeds"),
        ({"days": 300, "jobs": 9000}, "days"),
        ({"nodes": "x"}, "nodes"),
        ({"quotas": {"vision": 99}}, "quota"),
        ({"quotas": {"nowhere": 1}}, "quota"),
        ({"more": 1}, "more"),
    ],
)
def test_each_field_has_its_bounds(house: House, form: dict[str, Any], field: str) -> None:
    assert wrong(house, **form) == [field]


def test_a_quota_takes_from_what_the_others_leave_as_on_the_live_pool(house: House) -> None:
    change = asked(house, ADMIN, quotas={"vision": 1}).change
    assert change.quotas == {"vision": 1, "default": 1}  # four GPUs, two of them promised to speech


def test_made_up_jobs_go_to_the_queues_that_the_asker_may_use(house: House) -> None:
    assert {work.queue for work in asked(house, EVE).present.works} == {"speech"}  # others have no quota
    assert {work.queue for work in asked(house, ADMIN).present.works} == {"speech", "vision"}


def test_where_no_queue_has_a_quota_made_up_ones_are_simulated(house: House) -> None:
    bob = User(name=UserName("bob"))
    found = asked(house, bob).present
    assert {work.queue for work in found.works} == {queue.name for queue in found.queues}


def test_history_is_what_the_asker_may_see(house: House) -> None:
    finished(house)
    finished(house, "eve", queue="speech")
    of_admin = asked(house, ADMIN, source="history")
    assert sorted(work.queue for work in of_admin.present.works) == ["speech", "vision"]
    assert of_admin.notes == ()
    of_eve = asked(house, EVE, source="history")
    assert [work.queue for work in of_eve.present.works] == ["speech"]
    assert "emptier" in of_eve.notes[0]


def test_without_a_history_one_is_told_to_make_jobs_up(house: House) -> None:
    with pytest.raises(BadInput, match="made-up"):
        asked(house, source="history")


def test_more_jobs_than_can_be_played_are_refused_with_what_to_do(house: House) -> None:
    with pytest.raises(BadInput, match="fewer worlds"):
        asked(house, days=20, jobs=1000, load=20, seeds=10)


def test_another_pool_gets_quotas_by_what_its_jobs_use(house: House) -> None:
    found = asked(house, ADMIN, nodes="2x8xA100")
    assert len(found.present.nodes) == 2
    assert sum(queue.quota.total for queue in found.present.queues) == 16_000_000


def test_nodes_are_simulated_without_what_is_wrong_with_them_today(house: House) -> None:
    house.ask("POST", "/v1/nodes/node-0/cordon")
    wanted = WhatIfIn(**SMALL)
    assert judged(wanted, house.services, ADMIN) == SimulatedPool(
        nodes=tuple(node for node in house.engine.pool), queues=tuple(house.services.queues.settings(ADMIN))
    )
