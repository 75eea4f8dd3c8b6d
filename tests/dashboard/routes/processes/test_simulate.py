"""The Simulate page with a simulator in a process of its own."""

import json
from typing import Any

from grus.dashboard.whatif.simulation_runs import SimulationState
from grus.dashboard.whatif.simulation_worker import answered
from grus.simulator.whatif_scenarios import compare
from tests.dashboard.routes.test_simulate import ADA, SMALL, asked
from tests.server.house import House, events_of
from tests.server.process import eventually


def test_the_answer_is_the_simulators_and_only_the_askers(house: House) -> None:
    assert house.ask("POST", "/simulate", "ada", json={**SMALL, "add_nodes": "1x4xV100"}).status_code == 202
    plays = house.app.state.plays
    eventually(lambda: not plays.of(ADA).under_way, "the simulation ends")
    assert plays.of(ADA).stage is SimulationState.DONE, plays.of(ADA)
    found = house.ask("GET", "/simulate/answer", "ada").json()
    meant = asked(house, add_nodes="1x4xV100")
    again = answered(meant, compare(meant.present, meant.change, draw=True))
    assert found == json.loads(json.dumps(again))
    assert house.ask("GET", "/simulate/answer", "eve").status_code == 404


def told(house: House, who: str) -> dict[str, Any]:
    """What the stream begins with."""
    kind, data, _ = events_of(house.ask("GET", "/live/simulation?seconds=0.05", who).text)[0]
    assert kind == "play"
    return dict(data)


def test_one_at_a_time_for_all_who_asked_stops_it_and_others_hear_only_that_there_is_one(
    house: House,
) -> None:
    assert told(house, "ada") == {"other": "", "stage": ""}
    long = {**SMALL, "days": 30, "jobs": 150, "seeds": 2}
    assert house.ask("POST", "/simulate", "ada", json=long).status_code == 202
    assert house.ask("POST", "/simulate", "eve", json=long).status_code == 409
    assert told(house, "ada")["under_way"] is True
    assert told(house, "eve") == {"other": "somebody else", "stage": ""}
    assert house.ask("POST", "/simulate/stop", "eve").status_code == 403
    assert house.ask("POST", "/simulate/stop", "ada").status_code == 204
    eventually(lambda: not house.app.state.plays.of(ADA).under_way, "it has stopped")
    now = told(house, "ada")
    assert (now["stage"], now["text"]) == ("stopped", "ada stopped it")
    assert told(house, "eve") == {"other": "", "stage": ""}
