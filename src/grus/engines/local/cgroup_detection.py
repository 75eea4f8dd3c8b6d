"""CPU limits of workers by control groups, version 1 and 2: where groups can be made, and by which user.

A worker's supervisor enters a group of its own before it starts the command, so that every process below it
is in the group from its first instruction. It leaves and removes the group when all of them have ended.
Version 2 lets only groups without processes have limited groups below them: there the groups of workers are
beside the server's own, in the group above it.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grus.engines.local.worker_cgroup import write

WORKERS = "grus.workers"
OLD = 60.0
"""Seconds after which an empty control group is considered abandoned, its supervisor killed."""


@dataclass(frozen=True, slots=True)
class CpuGroups:
    """Place of the workers' groups; `version` is 0 where CPU cannot be limited, with the reason in `why`."""

    version: int
    base: str = ""
    home: str = ""
    """The server's own group."""
    why: str = ""

    def words(self) -> str:
        """Mechanism for people."""
        if not self.version:
            return f"not enforced: {self.why}"
        return f"limited to a job's `cpu` by control groups (version {self.version})"

    def plan(self, name: str, millicores: int) -> dict[str, Any] | None:
        """Arguments for a supervisor's `CpuGroup`; None without a limit. The engine chooses `name`."""
        if not self.version or millicores <= 0:
            return None
        path = os.path.join(self.base, WORKERS, name)
        return {"version": self.version, "path": path, "home": self.home, "millicores": millicores}


def find_groups(root: Path = Path("/")) -> CpuGroups:
    """Look where CPU limits can be set, and change nothing."""
    try:
        mounts = (root / "proc/self/mountinfo").read_text()
        groups = (root / "proc/self/cgroup").read_text()
    except OSError as error:
        return CpuGroups(0, why=f"control groups cannot be found ({error.strerror})")
    found = _version_1(mounts, groups) or _version_2(mounts, groups)
    if found is None:
        return CpuGroups(0, why="no control group of this machine has the cpu controller")
    at = root / found.base.lstrip("/")
    if found.version == 2 and "cpu" not in _read(at / "cgroup.controllers").split():
        return CpuGroups(0, why=f"{found.base} has no cpu controller")
    if not os.access(at, os.W_OK):
        return CpuGroups(0, why=f"{found.base} is not writable; {REMEDY}")
    if found.version == 2 and found.base != found.home and _read(at / "cgroup.procs").split():
        return CpuGroups(0, why=f"there are processes in {found.base}; {REMEDY}")
    return found


REMEDY = "run the server as root, or as a systemd service with Delegate=cpu and DelegateSubgroup=server"


def _mounted(line: str) -> tuple[str, str, str, list[str]] | None:
    """Root inside the hierarchy, place, kind and options of a mount."""
    left, _, right = line.partition(" - ")
    before, after = left.split(), right.split()
    if len(before) < 5 or len(after) < 3:
        return None
    return before[3], before[4], after[0], after[2].split(",")


def _version_1(mounts: str, groups: str) -> CpuGroups | None:
    for line in mounts.splitlines():
        found = _mounted(line)
        if found is None or found[2] != "cgroup" or "cpu" not in found[3]:
            continue
        for entry in groups.splitlines():
            _, controllers, path = entry.split(":", 2)
            if "cpu" in controllers.split(","):
                own = _inside(found[1], found[0], path)
                return CpuGroups(1, own, own)
    return None


def _version_2(mounts: str, groups: str) -> CpuGroups | None:
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    for line in mounts.splitlines():
        found = _mounted(line)
        if own is not None and found is not None and found[2] == "cgroup2":
            home = _inside(found[1], found[0], own)
            return CpuGroups(2, home if home == found[1] else os.path.dirname(home), home)
    return None


def _inside(place: str, root: str, path: str) -> str:
    """The folder of a group; in a container the mount's root is part of the group's path."""
    relative = os.path.relpath(path, root) if path.startswith(root) else path.lstrip("/")
    return os.path.normpath(os.path.join(place, relative))


def prepare(groups: CpuGroups) -> CpuGroups:
    """Make the group above those of the workers, and remove empty ones of supervisors that were killed."""
    if not groups.version:
        return groups
    workers = os.path.join(groups.base, WORKERS)
    try:
        if groups.version == 2:
            write(groups.base, "cgroup.subtree_control", "+cpu")
        os.makedirs(workers, exist_ok=True)
        if groups.version == 2:
            write(workers, "cgroup.subtree_control", "+cpu")
    except OSError as error:
        return CpuGroups(0, why=f"{workers} cannot be made ({error.strerror})")
    _sweep(workers)
    return groups


def release(groups: CpuGroups) -> None:
    """Remove the parent of the workers' groups if it is empty;
    only in version 1, which creates it again at a start.
    """
    if groups.version == 1:
        with suppress(OSError):
            os.rmdir(os.path.join(groups.base, WORKERS))


def _sweep(workers: str) -> None:
    for entry in os.scandir(workers):
        with suppress(OSError):  # in use, or gone already
            if entry.is_dir() and time.time() - entry.stat().st_mtime > OLD:
                os.rmdir(entry.path)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
