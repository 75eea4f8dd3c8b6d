"""Binding of a worker to its GPUs: the environment and a memory cap that keep it inside them. Pure."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grus.model.identifiers import DeviceId
from grus.model.interfaces import WorkerSpec
from grus.model.nodes import Device
from grus.model.resources import GPU


class CannotStart(Exception):
    """A worker that cannot be started at all; the text is for people."""


@dataclass(frozen=True, slots=True)
class Binding:
    env: dict[str, str]
    gpu_memory: int
    """Cap on each device, in bytes; 0 for the whole device."""
    memory_cap: int
    """Cap on the memory of the worker's processes, in bytes; 0 for none."""
    memory_meaning: str
    pretended: bool = False
    """True if the cap is the memory of a virtual GPU, and not of the host."""


def find_mps(environ: Mapping[str, str]) -> Path | None:
    """The pipe folder of a running MPS control daemon, or None."""
    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's default
    return folder if (folder / "control").exists() else None


def bind(
    worker: WorkerSpec, pool: Mapping[DeviceId, Device], *, virtual: bool, mps: Path | None = None
) -> Binding:
    """Return how to run this worker on its devices; raises CannotStart if they are not in the pool."""
    missing = [device for device in worker.devices if device not in pool]
    if missing:
        raise CannotStart(f"no such GPU here: {', '.join(missing)}")
    devices = [pool[device] for device in worker.devices]
    each = [slice_of(worker, device) for device in devices]
    cap, meaning, pretended = worker.memory, "limit of host memory", False
    if virtual and devices:
        whole = sum(limit or device.memory for limit, device in zip(each, devices, strict=True))
        if not cap or whole < cap:
            cap, meaning = whole, "slice of GPU memory" if any(each) else "GPU memory"
            pretended = True
    env = {
        "CUDA_VISIBLE_DEVICES": ",".join(worker.visible or worker.devices),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if virtual:
        env["GRUS_VIRTUAL"] = "1"
    elif any(each):
        env |= _slice_env(worker, devices, each, mps)
    return Binding(env, max(each, default=0), cap, meaning, pretended)


def slice_of(worker: WorkerSpec, device: Device) -> int:
    """Bytes that it may use of this device; 0 for all of it."""
    if worker.gpu_memory:
        return worker.gpu_memory
    return device.memory * worker.share // GPU if 0 < worker.share < GPU else 0


def _slice_env(
    worker: WorkerSpec, devices: list[Device], each: list[int], mps: Path | None
) -> dict[str, str]:
    if mps is not None:
        limits = ",".join(f"{i}={limit >> 20}M" for i, limit in enumerate(each))
        percentage = worker.share * 100 // GPU if 0 < worker.share < GPU else 100
        return {
            "CUDA_MPS_PIPE_DIRECTORY": os.fspath(mps),
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limits,
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, percentage)),
        }
    fraction = min(limit / device.memory for limit, device in zip(each, devices, strict=True))
    return {"GRUS_GPU_MEMORY_FRACTION": f"{fraction:.6f}"}
