"""What binds a worker to its GPUs: environment and caps."""

from pathlib import Path

from grus.engines.local.gpu_device_binding import bind, find_mps
from grus.model.identifiers import DeviceId
from grus.model.nodes import Device
from grus.model.resources import GPU
from tests.engines.test_local import a_worker

POOL = {DeviceId(f"GPU-{i}"): Device(id=DeviceId(f"GPU-{i}"), type="A100", memory=80 << 30) for i in range(2)}
ONE = (DeviceId("GPU-0"),)


def test_whole_real_gpus_need_only_their_uuids() -> None:
    found = bind(a_worker("j", "", devices=tuple(POOL), share=GPU), POOL, virtual=False)
    assert found.env["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    assert (found.gpu_memory, found.memory_cap) == (0, 0)
    assert not any(name.startswith(("CUDA_MPS", "GRUS")) for name in found.env)


def test_a_slice_under_mps_gets_limits_of_memory_and_threads(tmp_path: Path) -> None:
    (tmp_path / "control").touch()
    mps = find_mps({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
    worker = a_worker("j", "", devices=ONE, share=GPU // 4, gpu_memory=20 << 30)
    found = bind(worker, POOL, virtual=False, mps=mps)
    assert found.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"
    assert found.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert found.env["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path)


def test_without_mps_a_slice_is_told_its_fraction(tmp_path: Path) -> None:
    assert find_mps({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is None
    found = bind(a_worker("j", "", devices=ONE, share=GPU // 4), POOL, virtual=False)
    assert found.env["GRUS_GPU_MEMORY_FRACTION"] == "0.250000"
    assert found.gpu_memory == 20 << 30


def test_on_virtual_gpus_the_smaller_of_the_caps_counts() -> None:
    worker = a_worker("j", "", devices=tuple(POOL), share=GPU, memory=1 << 30)
    assert bind(worker, POOL, virtual=True).memory_cap == 1 << 30
    assert bind(a_worker("j", "", devices=tuple(POOL), share=GPU), POOL, virtual=True).memory_cap == 160 << 30


def test_a_virtual_gpus_memory_is_told_from_the_hosts() -> None:
    whole = a_worker("j", "", devices=ONE, share=GPU)
    assert bind(whole, POOL, virtual=True).pretended
    assert not bind(whole, POOL, virtual=False).pretended
    assert not bind(a_worker("j", "", devices=ONE, share=GPU, memory=1 << 30), POOL, virtual=True).pretended
