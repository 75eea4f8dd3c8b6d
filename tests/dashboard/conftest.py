"""A whole server without a process, with its pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.dashboard.mounting import mount
from tests.server.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    built = House(tmp_path, mount=mount)
    yield built
    built.close()
