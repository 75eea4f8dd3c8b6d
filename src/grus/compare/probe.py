"""The probe: one file that travels to an environment, examines it from inside and prints its findings.

It is started as `python3 probe.py INSTRUCTIONS`, in the workload's place, as the workload's user and with its
GPUs, and prints one line: MARK and a JSON object. It only measures; `preflight` draws the verdicts. Standard
library only, also on older Pythons: the installed packages there are unknown. Facts that cannot be found are
null.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import platform
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

MARK = "GRUS-PROBE "
BLOCK = 1 << 20
PATIENCE = 30.0
"""Seconds that nvidia-smi may take; on a node with a broken driver it hangs."""
THREADS, BLOCKS = 128, 64

KERNEL = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry fill(.param .u64 out)
{
  .reg .u32 %r<5>;
  .reg .u64 %d<4>;
  ld.param.u64 %d1, [out];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mad.lo.u32 %r4, %r1, %r1, 7;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r4;
  ret;
}
\0"""
"""The square of each thread's number, plus seven: too odd to stand in memory by chance."""


# ---------------------------------------------------------------------------------------------------- GPUs


class Cuda(Exception):
    """A call of the driver failed; the text says which."""


def gpus() -> dict[str, Any]:
    """Return the visible GPUs, the assigned ones, and whether they compute."""
    listed = smi("--query-gpu=uuid,name,memory.total,driver_version,compute_mode")
    names = ("uuid", "name", "memory_mb", "driver", "mode")
    return {
        "listed": None if listed is None else [dict(zip(names, one)) for one in listed],  # noqa: B905 - strict= is newer than the oldest Python meant here
        "devices": sorted(glob.glob("/dev/nvidia[0-9]*")),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "promised": os.environ.get("SLURM_JOB_GPUS") or os.environ.get("GRUS_GPUS"),
        "pretend": bool(os.environ.get("GRUS_VIRTUAL")),
        "computes": tried(driver_library()),
        "others": others_on_gpus(),
    }


def smi(query: str) -> list[list[str]] | None:
    """Rows of nvidia-smi's answer; None without one."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    rows = done.stdout.decode(errors="replace").splitlines()
    return [[cell.strip() for cell in row.split(",")] for row in rows if row.strip()]


def others_on_gpus() -> int | None:
    """Processes that compute on the visible GPUs already."""
    rows = smi("--query-compute-apps=pid")
    return None if rows is None else len(rows)


def driver_library() -> Any:
    for name in ("libcuda.so.1", "libcuda.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def tried(cuda: Any) -> dict[str, Any]:
    """Every visible GPU runs a kernel and its result is checked; `wrong` has a sentence for each failure."""
    if cuda is None:
        return {"gpus": 0, "right": 0, "wrong": ["there is no CUDA driver library (libcuda.so.1)"]}
    try:
        call(cuda, "cuInit", 0)
        count = ctypes.c_int()
        call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    except Cuda as why:
        return {"gpus": 0, "right": 0, "wrong": [str(why)]}
    wrong = []
    for number in range(count.value):
        try:
            compute(cuda, number)
        except Cuda as why:
            wrong.append(f"GPU {number}: {why}")
    return {"gpus": count.value, "right": count.value - len(wrong), "wrong": wrong}


def call(cuda: Any, name: str, *arguments: Any) -> None:
    try:
        code = getattr(cuda, name)(*arguments)
    except AttributeError:
        raise Cuda(f"the driver library has no {name}") from None
    if code:
        raise Cuda(f"{name} answered with error {code}")


def compute(cuda: Any, number: int) -> None:
    """Raises Cuda unless this GPU gives the right answer."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call(cuda, "cuDeviceGet", ctypes.byref(device), number)
    call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        call(cuda, "cuCtxSetCurrent", context)
        found = launched(cuda)
    finally:
        cuda.cuDevicePrimaryCtxRelease(device)
    if any(value != (place * place + 7) % (1 << 32) for place, value in enumerate(found)):
        raise Cuda("it computes wrong results")


def launched(cuda: Any) -> list[int]:
    module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    results = (ctypes.c_uint32 * (THREADS * BLOCKS))()
    call(cuda, "cuModuleLoadData", ctypes.byref(module), KERNEL)
    try:
        call(cuda, "cuModuleGetFunction", ctypes.byref(function), module, b"fill")
        call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(results)))
        given = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
        shape = (BLOCKS, 1, 1, THREADS, 1, 1, 0)
        call(cuda, "cuLaunchKernel", function, *shape, None, given, None)
        call(cuda, "cuCtxSynchronize")
        call(cuda, "cuMemcpyDtoH_v2", results, memory, ctypes.c_size_t(ctypes.sizeof(results)))
        call(cuda, "cuMemFree_v2", memory)
    finally:
        cuda.cuModuleUnload(module)
    return list(results)


# --------------------------------------------------------------------------------------------------- disks


def folder(path: str, megabytes: int) -> dict[str, Any]:
    """Measure whether files can be written here, and how fast they are written and read."""
    found: dict[str, Any] = {"path": os.path.abspath(path), "writable": False, "why": ""}
    try:
        usage = shutil.disk_usage(path)
        found.update(free=usage.free, total=usage.total)
        size = max(1, min(megabytes, usage.free // BLOCK // 4))
        found.update(speed(path, size), writable=True)
    except OSError as why:
        found["why"] = why.strerror or str(why)
    return found


def speed(path: str, megabytes: int) -> dict[str, float]:
    """MB/s of one file: written until it is on the disk, and read back past the cache where possible."""
    block = os.urandom(BLOCK)
    handle, name = tempfile.mkstemp(prefix=".grus-probe-", dir=path)
    try:
        began = time.monotonic()
        for _ in range(megabytes):
            os.write(handle, block)
        os.fsync(handle)
        written = time.monotonic() - began
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.lseek(handle, 0, os.SEEK_SET)
        began = time.monotonic()
        while os.read(handle, BLOCK):
            continue
        read = time.monotonic() - began
    finally:
        os.close(handle)
        os.unlink(name)
    amount = megabytes * BLOCK / 1e6
    return {"write_mb_s": amount / max(written, 1e-9), "read_mb_s": amount / max(read, 1e-9)}


# ----------------------------------------------------------------------------------- user, programs, load


def user() -> dict[str, Any]:
    try:
        name: str | None = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = None
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "name": name,
        "home": home,
        "home_exists": os.path.isdir(home),
        "home_writable": os.access(home, os.W_OK | os.X_OK),
    }


def programs(wanted: list[str]) -> dict[str, str | None]:
    return {name: shutil.which(name) for name in wanted}


def paths(wanted: list[str]) -> dict[str, bool]:
    return {path: os.access(path, os.R_OK) for path in wanted}


def load(seconds: float) -> dict[str, Any]:
    """Cores that others keep busy while this program waits, and what of the node is ours."""
    before, began = busy(), time.monotonic()
    time.sleep(seconds)
    after, passed = busy(), time.monotonic() - began
    cores = None if before is None or after is None else max(0.0, (after - before) / passed)
    return {
        "busy_cores": cores,
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "quota_cores": quota(),
        "batch": os.environ.get("SLURM_JOB_ID"),
        "memory_available": memory("MemAvailable"),
        "memory_total": memory("MemTotal"),
    }


def busy() -> float | None:
    """Seconds that all cores together have worked since the node started."""
    for line in lines("/proc/stat"):
        words = line.split()
        if words[:1] == ["cpu"]:
            numbers = [int(word) for word in words[1:]]
            # user, nice, system, irq, softirq and steal; not idle, nor waiting for disks, nor guests twice.
            return sum(numbers[:3] + numbers[5:8]) / os.sysconf("SC_CLK_TCK")
    return None


def quota() -> float | None:
    """Cores that the control group allows; None for all."""
    for line in lines("/sys/fs/cgroup/cpu.max"):
        most, period = line.split()
        return None if most == "max" else int(most) / int(period)
    for most in lines("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        for period in lines("/sys/fs/cgroup/cpu/cpu.cfs_period_us"):
            return int(most) / int(period) if int(most) > 0 else None
    return None


def memory(name: str) -> int | None:
    for line in lines("/proc/meminfo"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


def lines(path: str) -> Iterator[str]:
    try:
        with open(path) as file:
            yield from file
    except OSError:
        return


# --------------------------------------------------------------------------------------------------- whole


def found(instructions: dict[str, Any]) -> dict[str, Any]:
    return {
        "at": time.time(),
        "host": platform.node(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "user": user(),
        "programs": programs(instructions.get("programs", [])),
        "paths": paths(instructions.get("paths", [])),
        "folder": folder(instructions.get("folder", "."), int(instructions.get("megabytes", 64))),
        "load": load(float(instructions.get("seconds", 1.0))),
        "gpus": gpus() if instructions.get("gpus") else None,
    }


def main() -> int:
    with open(sys.argv[1]) as file:
        instructions = json.load(file)
    sys.stdout.write("\n" + MARK + json.dumps(found(instructions)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
