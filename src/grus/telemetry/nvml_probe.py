"""The child process that talks to the NVIDIA driver, so that a driver that hangs does not hang the server.

It answers each line on its standard input with one line of JSON: to `read` with all that every GPU says of
itself, to `figures` with what changes from moment to moment, which is fast. It decides nothing.
"""

import importlib
import json
import sys
import time
from types import ModuleType
from typing import Any

_A100 = 6912 * 1410
"""CUDA cores × MHz of a GPU with speed 1."""


def main(module: str) -> None:
    nvml = importlib.import_module(module)
    nvml.nvmlInit()
    seen: dict[int, str] = {}
    for line in sys.stdin:
        told = figures(nvml, seen) if line.strip() == "figures" else read(nvml, seen)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def read(nvml: ModuleType, seen: dict[int, str]) -> dict[str, object]:
    """Read all GPUs; `seen` keeps the UUID of each index, because a lost GPU no longer reports its own."""
    buses: dict[str, str] = {}
    gpus = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            seen[index] = _text(nvml.nvmlDeviceGetUUID(handle))
            buses[_bus(nvml.nvmlDeviceGetPciInfo(handle))] = seen[index]
            gpus.append(_gpu(nvml, handle, seen[index]))
        except nvml.NVMLError as error:
            gpus.append({"id": seen.get(index, ""), "fault": str(error)})
    for gpu in gpus:
        gpu["links"] = sorted({buses[bus] for bus in gpu.get("links", ()) if bus in buses})
    return {"driver": _text(nvml.nvmlSystemGetDriverVersion()), "gpus": gpus}


def figures(nvml: ModuleType, seen: dict[int, str]) -> dict[str, object]:
    """Read the changing values; each GPU with its time, in the monotonic clock that all processes share."""
    gpus: list[dict[str, Any]] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        moment = time.monotonic()
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            seen[index] = _text(nvml.nvmlDeviceGetUUID(handle))
            told = {"used": _memory(nvml, handle).used, **_figures(nvml, handle)}
            gpus.append({"id": seen[index], "moment": moment, **told})
        except nvml.NVMLError as error:
            gpus.append({"id": seen.get(index, ""), "fault": str(error)})
    return {"gpus": gpus}


def _gpu(nvml: ModuleType, handle: object, uuid: str) -> dict[str, Any]:
    memory = _memory(nvml, handle)
    cores = _maybe(nvml, lambda: nvml.nvmlDeviceGetNumGpuCores(handle))
    clock = _maybe(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    return {
        "id": uuid,
        "type": _text(nvml.nvmlDeviceGetName(handle)),
        "memory": memory.total,
        "used": memory.used,
        **_figures(nvml, handle),
        "speed": cores * clock / _A100 if cores and clock else None,
        "processes": _processes(nvml, handle),
        "links": _links(nvml, handle),
        "minor": _maybe(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
    }


def _figures(nvml: ModuleType, handle: object) -> dict[str, float | None]:
    """Read the values that change from moment to moment; None for each that this GPU or driver does not
    support.
    """
    rates = _maybe(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    return {
        "utilisation": None if rates is None else rates.gpu / 100,
        "memory_time": None if rates is None else rates.memory / 100,
        "power": _thousandth(_maybe(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))),
        "energy": _thousandth(_maybe(nvml, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))),
        "temperature": _maybe(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
    }


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _memory(nvml: ModuleType, handle: object) -> Any:
    """Version 2 keeps what the driver itself reserves apart from what is used."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError):
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _processes(nvml: ModuleType, handle: object) -> list[tuple[int, int]]:
    found: dict[int, int] = {}
    kinds = ("Compute", "Graphics", "MPSCompute")
    for kind in kinds:
        call = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses", None)
        for process in (_maybe(nvml, lambda call=call: call(handle)) if call else None) or ():
            found[process.pid] = max(found.get(process.pid, 0), process.usedGpuMemory or 0)
    return sorted(found.items())


def _links(nvml: ModuleType, handle: object) -> list[str]:
    """Bus ids at the other ends of its NVLinks."""
    found = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if _maybe(nvml, lambda link=link: nvml.nvmlDeviceGetNvLinkState(handle, link)):
            remote = _maybe(nvml, lambda link=link: nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))
            if remote is not None:
                found.append(_bus(remote))
    return found


def _maybe(nvml: ModuleType, call: Any) -> Any:
    """Return the call's result, or None if this GPU or driver does not support it; other calls detect a lost
    GPU.
    """
    try:
        return call()
    except nvml.NVMLError:
        return None


def _bus(info: Any) -> str:
    return _text(info.busId).lower()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
