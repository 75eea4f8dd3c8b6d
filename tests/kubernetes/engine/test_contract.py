"""The Kubernetes engine keeps every promise of an Engine, on real nodes."""

import os
from collections.abc import Callable
from zlib import crc32

import pytest

from grus.model.identifiers import DeviceId, NodeId
from grus.model.interfaces import Engine, WorkerSpec
from tests.contracts.engine_contract import EngineContract
from tests.kubernetes.conftest import GPUS, NODES
from tests.kubernetes.engine.conftest import Make
from tests.kubernetes.engine.workers import a_worker


class TestKubernetesEngine(EngineContract):
    @pytest.fixture
    def make(self, make_engine: Make) -> Callable[[], Engine]:
        return make_engine

    def spec(self, name: str, line: str, **changes: object) -> WorkerSpec:
        """Each process of the tests has a node of its own, and each worker a GPU, so that nobody waits."""
        process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        node = f"node{process % NODES + 1}"
        device = DeviceId(f"{node}/{crc32(name.encode()) % GPUS}")
        return a_worker(name, line, **{"node": NodeId(node), "devices": (device,), **changes})
