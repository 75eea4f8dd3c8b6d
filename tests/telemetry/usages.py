"""Small builders of what workers use."""

from typing import Any

from grus.model.identifiers import WorkerId
from grus.model.interfaces import Usage


def a_usage(*, at: float, cpu: float, **more: Any) -> Usage:
    return Usage(worker=WorkerId("j1.1.0"), at=at, cpu_seconds=cpu, memory=1, **more)
