"""Real GPUs, against a pretended driver: who uses them, which are lost, what a hanging driver does."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grus.engines.local.engine import LocalEngine
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.interfaces import WorkerState
from grus.model.jobs import ExitCause
from grus.model.nodes import Device, Health
from grus.model.resources import GPU
from grus.telemetry.nvidia_nvml import NvmlSource, find
from tests.contracts.engine_contract import end_of, until, until_says, until_state
from tests.engines.test_local import a_worker
from tests.telemetry.nvml_driver import FAKE, GIB, a_driver, a_gpu


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call it with GPUs to change what the driver says."""
    return a_driver(tmp_path, monkeypatch)


@pytest.fixture
def source(driver: Callable[..., None]) -> Iterator[NvmlSource]:
    source = NvmlSource(module=FAKE, interval=0.02, patience=5)
    assert source.measure()
    yield source
    source.close()


def devices(source: NvmlSource, *held: str) -> dict[str, Device]:
    (node,) = source.nodes([DeviceId(one) for one in held])
    return {str(device.id): device for device in node.devices}


def test_gpus_are_known_by_uuid_type_memory_and_island(
    driver: Callable[..., None], source: NvmlSource
) -> None:
    driver(a_gpu(0), a_gpu(1), a_gpu(2, links=["GPU-4"]), a_gpu(3), a_gpu(4, links=["GPU-2"], cores=13824))
    assert source.measure()
    found = devices(source)
    assert list(found) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"]
    assert found["GPU-4"].type == "NVIDIA A100"
    assert found["GPU-4"].memory == 80 * GIB
    assert found["GPU-4"].speed == pytest.approx(2)
    assert found["GPU-2"].island == found["GPU-4"].island
    assert len({device.island for device in found.values()}) == 4


def test_what_a_gpu_cannot_measure_is_unknown_and_not_zero(
    driver: Callable[..., None], source: NvmlSource
) -> None:
    driver(a_gpu(0, utilisation=97, memory_time=51, power=289.5, energy=1200, temperature=61), a_gpu(1))
    assert source.measure()
    measured, silent = source.readings()
    assert (measured.utilisation, measured.memory_time) == (0.97, 0.51)
    assert (measured.power, measured.energy, measured.temperature) == (289.5, 1200, 61)
    assert (silent.utilisation, silent.power, silent.energy, silent.temperature) == (0, None, None, None)


def test_no_driver_or_no_gpu_means_no_source(driver: Callable[..., None]) -> None:
    driver(broken=True)
    assert find(module=FAKE) is None
    driver()
    assert find(module=FAKE) is None
    assert find(module="no_such_module_at_all") is None


def test_a_gpu_used_by_an_outside_process_is_busy_and_says_by_whom(
    driver: Callable[..., None], source: NvmlSource
) -> None:
    driver(a_gpu(0, used=9 * GIB, processes=[[os.getpid(), 9 * GIB]]), a_gpu(1))
    assert source.measure()
    found = devices(source)
    assert found["GPU-0"].outside.startswith(f"pid {os.getpid()} ")
    assert not found["GPU-0"].usable
    assert found["GPU-1"].usable
    driver(a_gpu(0), a_gpu(1))
    assert source.measure()
    assert devices(source)["GPU-0"].usable


def test_a_gpu_that_is_lost_or_vanishes_is_quarantined_until_it_is_back(
    driver: Callable[..., None], source: NvmlSource
) -> None:
    driver(a_gpu(0), a_gpu(1, lost=True))
    assert source.measure()
    assert devices(source, "GPU-1")["GPU-1"].health is Health.QUARANTINED
    driver(a_gpu(0))
    assert source.measure()
    assert devices(source)["GPU-1"].health is Health.QUARANTINED
    assert devices(source)["GPU-0"].usable
    driver(a_gpu(0), a_gpu(1))
    assert source.measure()
    assert devices(source)["GPU-1"].usable


def test_memory_that_nobody_holds_makes_a_gpu_dirty_until_it_is_free(
    driver: Callable[..., None], source: NvmlSource
) -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    driver(a_gpu(0, used=5 * GIB, processes=[[ended.pid, 5 * GIB]]), a_gpu(1, used=100 << 20))
    assert source.measure()
    assert devices(source)["GPU-0"].health is Health.DIRTY
    assert devices(source, "GPU-0")["GPU-0"].health is Health.HEALTHY, "a worker holds it"
    assert devices(source)["GPU-1"].usable
    driver(a_gpu(0), a_gpu(1))
    assert source.measure()
    assert devices(source)["GPU-0"].usable


def test_a_hanging_driver_hangs_nobody_and_recovers(driver: Callable[..., None]) -> None:
    source = NvmlSource(module=FAKE, interval=0.02, patience=5)
    assert source.measure()
    source._patience = 0.2
    source.open(lambda readings: frozenset())
    driver(a_gpu(0), a_gpu(1), hang=True)
    until(lambda: devices(source)["GPU-0"].health is Health.QUARANTINED)
    assert devices(source, "GPU-0")["GPU-0"].health is Health.HEALTHY, "silence does not end a running job"
    source._patience = 5
    driver(a_gpu(0), a_gpu(1))
    until(lambda: devices(source)["GPU-0"].usable)
    source.close()


def test_workers_on_real_gpus_see_uuids_and_are_not_outsiders(
    driver: Callable[..., None], source: NvmlSource, tmp_path: Path
) -> None:
    engine = LocalEngine(tmp_path / "engine", source)
    engine.open(1)
    line = "echo $CUDA_VISIBLE_DEVICES $GRUS_VIRTUAL $GRUS_GPU_MEMORY_FRACTION; exec sleep 1000"
    worker = a_worker("j1", line, devices=(DeviceId("GPU-1"),), share=GPU // 2, gpu_memory=40 * GIB)
    engine.start(worker)
    until_says(engine, worker.id, b"\n")
    assert engine.log(worker.id)[0] == b"GPU-1 0.500000\n"
    pid = until_state(engine, worker.id, WorkerState.RUNNING).pid

    driver(a_gpu(0), a_gpu(1, used=30 * GIB, processes=[[pid, 30 * GIB]], utilisation=70))
    until(lambda: any(use.gpu_memory == 30 * GIB for use in engine.usage()))
    (use,) = engine.usage()
    assert use.gpu_utilisation == pytest.approx(0.7)
    (node,) = engine.nodes()
    assert all(device.usable for device in node.devices)

    driver(a_gpu(0), a_gpu(1, used=41 * GIB, processes=[[pid, 41 * GIB]]))
    found = end_of(engine, worker.id)
    assert found.cause is ExitCause.GPU_MEMORY
    assert "slice" in found.text
    until(lambda: engine.nodes()[0].devices[1].health is Health.DIRTY)
    driver(a_gpu(0), a_gpu(1))
    until(lambda: engine.nodes()[0].devices[1].usable)
    engine.close()


def test_the_watchdog_leaves_a_neighbour_on_the_same_gpu_alone(
    driver: Callable[..., None], source: NvmlSource, tmp_path: Path
) -> None:
    engine = LocalEngine(tmp_path / "engine", source)
    engine.open(1)
    pids = []
    for name in ("hog", "neighbour"):
        engine.start(a_worker(name, "exec sleep 1000", devices=(DeviceId("GPU-0"),), share=GPU // 2))
        pids.append(until_state(engine, WorkerId(name), WorkerState.RUNNING).pid)
    rows = [[pids[0], 50 * GIB], [pids[1], 20 * GIB]]
    driver(a_gpu(0, used=70 * GIB, processes=rows), a_gpu(1))
    assert end_of(engine, WorkerId("hog")).cause is ExitCause.GPU_MEMORY
    assert until_state(engine, WorkerId("neighbour"), WorkerState.RUNNING)
    engine.stop(WorkerId("neighbour"), 0)
    end_of(engine, WorkerId("neighbour"))
    engine.close()
