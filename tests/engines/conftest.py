"""An open local engine with small logs, and the names of its parts, for tests of what only it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grus.engines.local.engine import LocalEngine, LogLimits
from grus.model.interfaces import WorkerState
from grus.telemetry.virtual_gpus import VirtualSource
from tests.contracts.engine_contract import until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "engine"


@pytest.fixture
def local(state: Path) -> Iterator[LocalEngine]:
    """Open under epoch 1 on two nodes of four 16 GB GPUs; what runs at the end is killed."""
    logs = LogLimits(segment=1000, segments=3)
    with opened(LocalEngine(state, VirtualSource("2x4x16GB"), logs=logs)) as engine:
        yield engine


@contextmanager
def opened(engine: LocalEngine) -> Iterator[LocalEngine]:
    """Under epoch 1; what runs at the end is killed."""
    engine.open(1)
    yield engine
    for status in engine.workers():
        engine.stop(status.id, 0)
    until(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()))
    engine.close()
