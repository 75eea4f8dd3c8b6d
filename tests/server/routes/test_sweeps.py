"""Sweeps over HTTP: what is refused is refused with every mistake, and what is shown is what is on record."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grus.controlplane.sweeps.sweep_controller import Sweeper
from grus.controlplane.sweeps.trial_index import Trials
from tests.server.house import JOB, SWEEP, House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def refused(house: House, **search: Any) -> dict[str, str]:
    """Field and rule of every mistake of this search; nothing is stored."""
    response = house.ask("POST", "/v1/jobs", "ada", json={**JOB, "sweep": {**SWEEP, **search}})
    assert response.status_code == 422, response.text
    assert house.store.jobs() == []
    return {one["field"]: one["rule"] for one in response.json()["error"]["mistakes"]}


def test_an_impossible_space_is_refused_with_every_mistake(house: House) -> None:
    space = {"a": {"uniform": [1, 0]}, "b": {"log": [0, 1]}, "c": [], "d": {"int": [1, 2], "step": 9}}
    assert {field.split(".")[2] for field in refused(house, space=space)} == {"a", "b", "c", "d"}


def test_a_bound_that_is_no_number_is_refused(house: House) -> None:
    body = {**JOB, "sweep": {**SWEEP, "space": {"a": {"uniform": [0, float("nan")]}}}}
    response = house.ask("POST", "/v1/jobs", "ada", content=json.dumps(body))
    assert response.status_code == 422, response.text
    assert house.store.jobs() == []


def test_a_search_that_would_never_end_is_refused(house: House) -> None:
    assert "never ends" in refused(house, budget={})["sweep.budget"]


@pytest.mark.parametrize(
    ("changes", "search", "field"),
    [
        ({"type": "dev"}, {}, "type"),
        ({"resources": {"gpu": 0}}, {}, "sweep.parallel"),
        ({"resources": {"gpu": "auto"}}, {}, "resources.gpu"),
        ({}, {"grow": 0.5}, "sweep.grow"),
        ({"resources": {"gpu": 1}, "launch": "once"}, {"grow": "1..4"}, "sweep.grow"),
        ({"params": {"lr": 0.1}}, {}, "params.lr"),
    ],
)
def test_what_does_not_go_together_is_named(
    house: House, changes: dict[str, Any], search: dict[str, Any], field: str
) -> None:
    response = house.ask("POST", "/v1/jobs", "ada", json={**JOB, **changes, "sweep": {**SWEEP, **search}})
    assert response.status_code == 422, response.text
    assert field in {one["field"] for one in response.json()["error"]["mistakes"]}


def test_a_size_to_grow_to_that_no_pool_has_is_refused(house: House) -> None:
    response = house.ask("POST", "/v1/jobs", "ada", json={**JOB, "sweep": {**SWEEP, "grow": 64}})
    assert response.status_code == 409, response.text
    assert "grow" in response.text
    assert house.store.jobs() == []


def test_a_sweep_is_shown_with_its_trials_and_their_parameters(house: House) -> None:
    sweep = house.submit(sweep=SWEEP)
    sweeper = Sweeper(house.store, house.loop, Trials(house.store), clock=lambda: house.engine.now)
    sweeper.open()
    sweeper.step(house.engine.now)
    house.settle()
    shown = house.ask("GET", f"/v1/sweeps/{sweep}", "ada").json()
    assert shown["metric"] == "loss"
    assert [one["number"] for one in shown["trials"]] == list(range(len(shown["trials"])))
    assert all(1e-4 <= one["params"]["lr"] <= 1e-1 for one in shown["trials"])
    house.engine.rings(shown["trials"][0]["job"], '{"at": 1700000000, "figures": {"step": 1, "loss": 0.5}}')
    house.settle()
    best = house.ask("GET", f"/v1/sweeps/{sweep}/best", "ada").json()
    assert best["trial"] == 0
    assert best["document"]["params"] == shown["trials"][0]["params"]
    again = house.ask("POST", "/v1/jobs", "ada", json=best["document"])
    assert again.status_code == 201, again.text
    sweeper.close()
