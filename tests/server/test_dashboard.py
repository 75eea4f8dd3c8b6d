"""The Grafana dashboard that is shipped asks only for what the server exports."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.house import House

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "grus.json"
NAME = re.compile(r"\bgrus_[a-z0-9_]+")
LABELS = re.compile(r"\b(grus_[a-z0-9_]+)\{([^}]*)\}")


@pytest.fixture
def dashboard() -> dict[str, Any]:
    return dict(json.loads(DASHBOARD.read_text()))


def questions(dashboard: dict[str, Any]) -> list[str]:
    of_panels = [one["expr"] for panel in dashboard["panels"] for one in panel.get("targets", ())]
    of_lists = [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    return of_panels + of_lists


def exported(house: House) -> dict[str, set[str]]:
    """The names that a query can use, each with the labels that were seen."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(house.ask("GET", "/metrics").text):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_of_the_dashboard_is_exported(house: House, dashboard: dict[str, Any]) -> None:
    house.submit(resources={"gpu": 1})
    for _ in range(3):
        house.engine.now += 1.0
        house.measure()
    there = exported(house)
    asked = {name for question in questions(dashboard) for name in NAME.findall(question)}
    assert len(asked) > 30
    assert asked - set(there) == set()
    for question in questions(dashboard):
        for name, labels in LABELS.findall(question):
            used = set(re.findall(r"(\w+)=", labels))
            assert not there[name] or used <= there[name], question


def test_panels_do_not_overlap_and_each_has_a_question(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells
        assert panel["type"] == "row" or panel["targets"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
