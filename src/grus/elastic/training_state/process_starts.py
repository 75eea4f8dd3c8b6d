"""Start times of processes, which tell a process from a later one with the same number."""

import os
from pathlib import Path

UNKNOWN = 0.0


def start_of(pid: int) -> float | None:
    """Unix time of the start of a process: None if it is gone, UNKNOWN where the system does not show it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass  # it exists, and belongs to another user
    try:
        # The name in brackets may itself hold brackets and spaces: count from the last one.
        ticks = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
        return _boot() + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, LookupError, ValueError, StopIteration):
        return UNKNOWN


def _boot() -> float:
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))
