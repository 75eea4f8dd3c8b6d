"""Slices of a GPU on real nodes: one reservation for all, a cap for each, and what befalls offenders."""

from grus.engines.kubernetes.engine import KubernetesEngine
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import NODES, PODS
from grus.kubernetes.names import RESERVATION
from grus.model.identifiers import DeviceId, NodeId, WorkerId
from grus.model.interfaces import WorkerState
from grus.model.jobs import ExitCause
from grus.model.resources import GPU
from tests.contracts.engine_contract import end_of, until, until_says
from tests.kubernetes.engine.conftest import Make
from tests.kubernetes.engine.workers import a_worker

SHOW = 'echo "$NVIDIA_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES $GRUS_GPU_MEMORY_FRACTION"; exec sleep 600'
GREEDY = "exec python3 -c 'x = b\"x\" * (200 << 20); import time; time.sleep(600)'"
DEVICE = DeviceId("node2/1")


def a_slice(engine: KubernetesEngine, name: str, line: str) -> WorkerId:
    spec = a_worker(name, line, node=NodeId("node2"), devices=(DEVICE,), share=GPU // 8)
    engine.start(spec)
    return spec.id


def test_slices_share_a_reserved_gpu_until_the_last_has_ended_and_offenders_are_evicted(
    api: Api, own_namespace: str, make_engine: Make
) -> None:
    api.patch(NODES, "node2", {"metadata": {"labels": {"grus.dev/gpu-memory": "1Gi"}}})
    engine = make_engine()
    engine.open(1)
    until(lambda: engine.nodes()[1].devices[0].memory == 1 << 30)
    first, second, greedy = (
        a_slice(engine, "j1", SHOW),
        a_slice(engine, "j2", SHOW),
        a_slice(engine, "j3", GREEDY),
    )
    for worker in (first, second):
        until_says(engine, worker, b"0.125")
    assert engine.log(first)[0] == engine.log(second)[0]
    visible, cuda, _ = engine.log(first)[0].split()
    assert visible == cuda
    assert visible.startswith(b"GPU-")
    (held,) = api.list(PODS, own_namespace, labels=RESERVATION)[0]
    assert held["metadata"]["name"] == "grus-gpu-node2-1"
    assert held["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}

    evicted = end_of(engine, greedy)
    assert evicted.cause is ExitCause.GPU_MEMORY
    assert "slice" in evicted.text
    assert not any(one.state is WorkerState.ENDED for one in engine.workers() if one.id != greedy)

    engine.stop(first, 0)
    end_of(engine, first)
    (still,) = api.list(PODS, own_namespace, labels=RESERVATION)[0]
    assert "deletionTimestamp" not in still["metadata"]
    engine.stop(second, 0)
    end_of(engine, second)
    assert all(
        "deletionTimestamp" in pod["metadata"] for pod in api.list(PODS, own_namespace, labels=RESERVATION)[0]
    )
    engine.close()
