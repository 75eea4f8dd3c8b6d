"""What the machine is and does: facts that stand beside every figure, and a way to wait until it is quiet."""

import datetime
import os
import platform
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def facts(folder: Path | None = None) -> dict[str, object]:
    """The machine in a few words; `fdatasync_per_s` is what bounds durable commits one at a time."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "fdatasync_per_s": round(fdatasync_rate(folder)),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def fdatasync_rate(folder: Path | None = None, seconds: float = 0.5) -> float:
    """Appends of 4 KiB made durable, per second."""
    with tempfile.TemporaryFile(dir=folder) as file:
        block, count, start = os.urandom(4096), 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            count += 1
    return count / passed


def busy_share(seconds: float = 1.0) -> float:
    """Share of all cores' time that was used by anybody during the next `seconds`."""
    before, total_before = _ticks()
    time.sleep(seconds)
    after, total_after = _ticks()
    return (after - before) / max(1, total_after - total_before)


def _ticks() -> tuple[int, int]:
    """CPU time since boot, in ticks: used, and in all."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = numbers[3] + numbers[4]
    return sum(numbers) - idle, sum(numbers)


def wait_until_quiet(share: float = 0.10, patience: float = 60.0) -> float:
    """Wait until others use at most `share` of the CPU; what they used last, for the record."""
    deadline = time.monotonic() + patience
    while (busy := busy_share()) > share and time.monotonic() < deadline:
        pass
    return busy


def wait_for(condition: Callable[[], bool], patience: float, what: str, every: float = 0.02) -> None:
    """Wait until `condition` holds; TimeoutError naming `what` after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:g} s for {what}")
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range, rounded for reading."""
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
        "n": len(values),
    }
