"""The control groups of real nodes: each node's pods are under one of its own, in every hierarchy."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.kubernetes.processes import Failed

TOP = Path("/sys/fs/cgroup")


def name(cluster: str, node: int) -> str:
    return f"grus-{cluster}-node{node}"


def hierarchies() -> Sequence[Path]:
    """One where the system is unified (version 2), else one for each controller (version 1)."""
    if (TOP / "cgroup.procs").exists():
        return [TOP]
    return sorted(folder for folder in TOP.iterdir() if (folder / "cgroup.procs").exists())


def make(group: str) -> None:
    for hierarchy in hierarchies():
        folder = hierarchy / group
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # in version 1, empty ones take no process
            if (folder / file).exists() and (hierarchy / file).exists():
                (folder / file).write_text((hierarchy / file).read_text())


def remove(prefix: str) -> None:
    """All groups whose name begins so; their processes were killed, but the last may not be gone yet."""
    until = time.monotonic() + 30
    for folder in deepest_first(prefix):
        while folder.exists():
            try:
                folder.rmdir()
            except OSError as busy:
                if time.monotonic() > until:
                    raise Failed(f"{folder} could not be removed: {busy}") from busy
                time.sleep(0.05)


def deepest_first(prefix: str) -> Iterator[Path]:
    for hierarchy in hierarchies():
        for top in hierarchy.glob(f"{prefix}*/"):
            yield from sorted(top.glob("**/"), key=lambda folder: len(folder.parts), reverse=True)
