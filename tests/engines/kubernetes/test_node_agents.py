"""What the engine understands of the node agents' word on what pods use."""

import json

from grus.engines.kubernetes.node_agents import read, usage
from grus.kubernetes.agent.usage import GpuUse, Measured, told
from grus.kubernetes.node.cgroups import CgroupUsage
from grus.model.identifiers import WorkerId
from grus.model.interfaces import Usage

W = WorkerId("j1.1.0")


def heard(text: str, uid: str = "u1") -> Usage | None:
    said = read(text)
    assert said is not None
    io = said.io.get(uid)
    return usage(W, said.at, said.pods[uid]) if io is None else usage(W, said.at, said.pods[uid], io)


def test_what_an_agent_measures_arrives_and_what_it_cannot_measure_is_unknown() -> None:
    known = Measured(CgroupUsage(1.5, 1000, (4096, 512)), GpuUse(0.5, 77, 77), (10, 20))
    assert heard(told(5, {"u1": known})) == Usage(
        worker=W,
        at=5,
        cpu_seconds=1.5,
        memory=1000,
        gpu_utilisation=0.5,
        gpu_memory=77,
        disk_read=4096,
        disk_write=512,
        network_in=10,
        network_out=20,
        network_at=5,
    )
    unknown = Measured(CgroupUsage(1.5, 1000), None)
    assert heard(told(5, {"u1": unknown})) == Usage(worker=W, at=5, cpu_seconds=1.5, memory=1000)


def test_the_word_of_an_agent_of_an_earlier_release_is_understood() -> None:
    text = json.dumps({"at": 5, "pods": {"u1": [1.5, 1000, None, None]}})
    assert heard(text) == Usage(worker=W, at=5, cpu_seconds=1.5, memory=1000)
