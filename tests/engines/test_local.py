"""The local engine keeps every promise of an Engine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import Engine, WorkerSpec
from grus.model.resources import GPU
from grus.telemetry.virtual_gpus import VirtualSource
from tests.contracts.engine_contract import PATH, EngineContract


def a_worker(name: str, line: str, **changes: Any) -> WorkerSpec:
    """A worker on one whole virtual GPU that runs a shell line."""
    spec = WorkerSpec(
        id=WorkerId(name),
        job=JobId(name.partition(".")[0]),
        attempt=1,
        node=NodeId("node-0"),
        argv=("/bin/sh", "-c", line),
        env=(("PATH", PATH),),
        workdir="/",
        devices=(DeviceId("node-0/gpu-0"),),
        share=GPU,
    )
    return replace(spec, **changes)


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Engine]:
        return lambda: LocalEngine(tmp_path / "engine", VirtualSource("2x4x16GB"))

    def spec(self, name: str, line: str, **changes: object) -> WorkerSpec:
        return a_worker(name, line, **changes)
