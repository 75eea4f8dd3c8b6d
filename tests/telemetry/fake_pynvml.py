"""A pretended `pynvml` whose driver says what a JSON file says (named by FAKE_NVML), read anew at each
listing.

    {"driver": "555", "hang": false, "gpus": [{"uuid", "name", "memory", "used", "utilisation", "memory_time",
    "power", "energy", "temperature", "processes": [[pid, bytes]], "links": [uuid, …], "lost": false}, …]}

A GPU that does not name its power, energy or temperature is one that cannot measure it.
"""

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_NVLINK_MAX_LINKS = 18
NVML_CLOCK_SM = 1
NVML_TEMPERATURE_GPU = 0
nvmlMemory_v2 = 2


class NVMLError(Exception):
    pass


_now: dict[str, Any] = {}


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(os.environ["FAKE_NVML"]).read_text())
    return found


def nvmlInit() -> None:
    if _read().get("broken"):
        raise NVMLError("Driver Not Loaded")


def nvmlSystemGetDriverVersion() -> str:
    return str(_now["driver"])


def nvmlDeviceGetCount() -> int:
    _now.update(_read())
    if _now.get("hang"):
        threading.Event().wait()
    return len(_now["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> Any:
    gpu = _now["gpus"][index]
    if gpu.get("lost"):
        raise NVMLError("GPU is lost")
    return gpu


def nvmlDeviceGetUUID(gpu: Any) -> str:
    return str(gpu["uuid"])


def nvmlDeviceGetMinorNumber(gpu: Any) -> int:
    return int(gpu.get("minor", _now["gpus"].index(gpu)))


def nvmlDeviceGetName(gpu: Any) -> bytes:
    return str(gpu["name"]).encode()


def nvmlDeviceGetPciInfo(gpu: Any) -> Any:
    return SimpleNamespace(busId=f"BUS:{gpu['uuid']}".encode())


def nvmlDeviceGetMemoryInfo(gpu: Any, version: int | None = None) -> Any:
    return SimpleNamespace(total=gpu["memory"], used=gpu.get("used", 0))


def nvmlDeviceGetUtilizationRates(gpu: Any) -> Any:
    return SimpleNamespace(gpu=gpu.get("utilisation", 0), memory=gpu.get("memory_time", 0))


def nvmlDeviceGetPowerUsage(gpu: Any) -> int:
    return int(_supported(gpu, "power") * 1000)


def nvmlDeviceGetTotalEnergyConsumption(gpu: Any) -> int:
    return int(_supported(gpu, "energy") * 1000)


def nvmlDeviceGetTemperature(gpu: Any, sensor: int) -> int:
    return int(_supported(gpu, "temperature"))


def _supported(gpu: Any, name: str) -> float:
    if name not in gpu:
        raise NVMLError("Not Supported")
    return float(gpu[name])


def nvmlDeviceGetNumGpuCores(gpu: Any) -> int:
    return int(gpu.get("cores", 6912))


def nvmlDeviceGetMaxClockInfo(gpu: Any, kind: int) -> int:
    return 1410


def nvmlDeviceGetComputeRunningProcesses(gpu: Any) -> list[Any]:
    rows = gpu.get("processes", [])
    return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in rows]


def nvmlDeviceGetGraphicsRunningProcesses(gpu: Any) -> list[Any]:
    raise NVMLError("Not Supported")


def nvmlDeviceGetNvLinkState(gpu: Any, link: int) -> int:
    if link >= len(gpu.get("links", [])):
        raise NVMLError("Not Supported")
    return 1


def nvmlDeviceGetNvLinkRemotePciInfo(gpu: Any, link: int) -> Any:
    return SimpleNamespace(busId=f"BUS:{gpu['links'][link]}".encode())
