"""Control groups of pods: their processes and their usage.

Versions 1 and 2, and both naming schemes of a kubelet (its own, and systemd's).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DEEPEST = 4
"""Depth below the top to which the kubelet's group is searched: nodes that are containers themselves nest."""


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    cpu_seconds: float
    """Used so far by all processes that the pod ever had."""
    memory: int
    """Bytes, without caches that the kernel would drop first: what `kubectl top` calls memory."""
    disk: tuple[int, int] | None = None
    """Bytes read from and written to disks so far; None where the kernel does not count them for pods."""


def candidates(root: Path, uid: str) -> Iterator[Path]:
    """Yield the possible paths of a pod's group below the kubelet's group."""
    if root.suffix == ".slice":
        stem, name = root.stem, f"pod{uid.replace('-', '_')}.slice"
        yield root / f"{stem}-{name}"
        for kind in ("burstable", "besteffort"):
            yield root / f"{stem}-{kind}.slice" / f"{stem}-{kind}-{name}"
    else:
        yield root / f"pod{uid}"
        for kind in ("burstable", "besteffort"):
            yield root / kind / f"pod{uid}"


def roots(hierarchy: Path, depth: int = _DEEPEST) -> Iterator[Path]:
    """The groups of kubelets in a hierarchy."""
    try:
        inside = [Path(entry.path) for entry in os.scandir(hierarchy) if entry.is_dir(follow_symlinks=False)]
    except OSError:  # removed meanwhile
        return
    for folder in inside:
        if folder.name == "kubepods" or folder.name.endswith("kubepods.slice"):
            yield folder
        elif depth > 1:
            yield from roots(folder, depth - 1)


class Groups:
    """The hierarchies below one place, which is /sys/fs/cgroup of the node. Not for several threads."""

    def __init__(self, top: Path) -> None:
        self._unified = (top / "cgroup.procs").exists()
        self._memory = top if self._unified else top / "memory"
        self._cpu = top if self._unified else top / "cpuacct"
        self._disk = top if self._unified else top / "blkio"
        self._roots: list[Path] = []
        self._known: dict[str, Path] = {}

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def processes(self, uid: str) -> list[int]:
        """All of the pod's, its containers' together; none if it has no group (any more)."""
        folder = self._folder(uid)
        return list(_processes(self._memory / folder)) if folder else []

    def use(self, uid: str) -> CgroupUsage | None:
        folder = self._folder(uid)
        if folder is None:
            return None
        try:
            return self._use_v2(folder) if self._unified else self._use_v1(folder)
        except (OSError, KeyError, ValueError):  # gone between two looks
            return None

    def _use_v1(self, folder: Path) -> CgroupUsage:
        stat = _table(self._memory / folder / "memory.stat")
        usage = int((self._memory / folder / "memory.usage_in_bytes").read_text())
        cpu = int((self._cpu / folder / "cpuacct.usage").read_text())
        disk = _disk_v1(self._disk / folder / "blkio.throttle.io_service_bytes_recursive")
        return CgroupUsage(cpu / 1e9, max(0, usage - stat["total_inactive_file"]), disk)

    def _use_v2(self, folder: Path) -> CgroupUsage:
        stat = _table(self._memory / folder / "memory.stat")
        usage = int((self._memory / folder / "memory.current").read_text())
        cpu = _table(self._cpu / folder / "cpu.stat")["usage_usec"]
        return CgroupUsage(
            cpu / 1e6, max(0, usage - stat["inactive_file"]), _disk_v2(self._disk / folder / "io.stat")
        )

    def _folder(self, uid: str) -> Path | None:
        """Relative to a hierarchy: the same in all of them."""
        known = self._known.get(uid)
        if known is not None and (self._memory / known).is_dir():
            return known
        if not self._roots:
            self._roots = list(roots(self._memory))
        for root in self._roots:
            for place in candidates(root, uid):
                if place.is_dir():
                    self._known[uid] = place.relative_to(self._memory)
                    return self._known[uid]
        return None


def _processes(folder: Path) -> Iterator[int]:
    for place, _, _ in os.walk(folder):
        try:
            text = Path(place, "cgroup.procs").read_text()
        except OSError:  # gone
            continue
        yield from map(int, text.split())


def _disk_v1(file: Path) -> tuple[int, int] | None:
    """Lines such as `8:0 Read 4096`."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return None
    rows = [line for line in lines if len(line) == 3 and not _stacked(line[0])]
    reads = sum(int(size) for _, kind, size in rows if kind == "Read")
    return reads, sum(int(size) for _, kind, size in rows if kind == "Write")


def _disk_v2(file: Path) -> tuple[int, int] | None:
    """Lines such as `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return None
    rows = [dict(word.split("=") for word in line[1:]) for line in lines if line and not _stacked(line[0])]
    return sum(int(row.get("rbytes", 0)) for row in rows), sum(int(row.get("wbytes", 0)) for row in rows)


def _stacked(number: str) -> bool:
    """Return whether a disk is made of others (LVM, RAID), which are counted themselves."""
    try:
        return bool(os.listdir(f"/sys/dev/block/{number}/slaves"))
    except OSError:
        return False


def _table(file: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in file.read_text().splitlines())}
