"""Metrics of the server: names, types and labels; and their texts."""

from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest.mock import patch

from prometheus_client.core import Metric

from grus.server.routes import metrics
from tests.golden.descriptions import a_server


@cache
def families() -> tuple[Metric, ...]:
    """All that a scrape shows while a job runs."""
    read: list[Metric] = []

    class Kept(metrics._Read):
        def __init__(self, families: Sequence[Metric]) -> None:
            super().__init__(families)
            read.extend(families)

    with a_server() as house, patch.object(metrics, "_Read", Kept):
        house.submit()
        house.measure()
        house.ask("GET", "/metrics")
        counted = list(house.app.state.figures.registry.collect())
    return tuple(sorted([*read, *counted], key=lambda one: one.name))


def structure() -> dict[str, Any]:
    return {
        one.name: {"type": one.type, "labels": list(getattr(one, "_labelnames", ()))} for one in families()
    }


def texts() -> dict[str, str]:
    return {one.name: one.documentation for one in families()}
