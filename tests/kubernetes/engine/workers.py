"""Workers for tests of the Kubernetes engine."""

from dataclasses import replace
from typing import Any

from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec
from grus.model.resources import GPU
from tests.contracts.engine_contract import PATH


def a_worker(name: str, line: str, **changes: Any) -> WorkerSpec:
    """A worker on one whole GPU of node1 that runs a shell line."""
    spec = WorkerSpec(
        id=WorkerId(name),
        job=JobId(name.partition(".")[0]),
        attempt=1,
        node=NodeId("node1"),
        argv=("/bin/sh", "-c", line),
        env=(("PATH", PATH),),
        workdir="/",
        devices=(DeviceId("node1/0"),),
        share=GPU,
    )
    return replace(spec, **changes)
