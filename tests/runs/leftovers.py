"""Find and remove what a run of the tests left: clusters, processes, devices, mounts, control groups, files.

A process belongs to a run if its environment names the folder of the run, or if it is in the network of the
run. Nothing else is touched.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.runs import network
from tests.runs.record import Run
from tools.kubernetes import cgroups
from tools.kubernetes.processes import Mark, end
from tools.kubernetes.settings import all_clusters, base

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 20
"""Searches for processes that were forked while others were killed."""
PLACES = (b"PWD=", b"OLDPWD=")
"""Variables that a person's shell sets when it visits the folder."""
HELPERS = ("multiprocessing.resource_tracker",)
"""Programs of Python itself, which end with the process that started them."""


@dataclass(frozen=True, slots=True)
class Leftover:
    kind: str
    what: str
    test: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.what}{f' of {self.test}' if self.test else ''}"


def found(run: Run) -> list[Leftover]:
    """All but the folder, which every run has until it ends."""
    return [
        *(Leftover("cluster", name) for name in clusters(run)),
        *(described(mark.pid, run) for mark in processes(run)),
        *(Leftover("network device", name) for name in links(run)),
        *(Leftover("mount", str(place)) for place in mounts(run)),
        *(Leftover("control group", str(group)) for group in groups(run)),
    ]


def settled(run: Run, seconds: float) -> list[Leftover]:
    """What is still there after that long: processes may be about to end, and devices with them."""
    until = time.monotonic() + seconds
    while (left := found(run)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def clusters(run: Run) -> list[str]:
    return [one.name for one in all_clusters() if one.name.startswith(f"{run.name}-")]


def processes(run: Run) -> list[Mark]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    marked = [pid for pid in pids if names(environment(pid), run)]
    inside = [pid for pid in pids if run.namespace and network.number(pid) == run.namespace]
    if inside and not run.alive() and network.name(inside[0]) != run.name:
        inside = []  # another namespace got the number
    chosen = {*marked, *inside} - {os.getpid(), run.controller.pid if run.alive() else 0}
    return [mark for pid in sorted(chosen) if not helper(pid) and (mark := mark_of(pid))]


def names(variables: Sequence[bytes], run: Run) -> bool:
    folder = str(run.folder).encode()
    return any(folder in variable for variable in variables if not variable.startswith(PLACES))


def environment(pid: int) -> Sequence[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # ended, or another user's
        return ()


def command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return " ".join(words.split())


def helper(pid: int) -> bool:
    return any(program in command(pid) for program in HELPERS)


def mark_of(pid: int) -> Mark | None:
    try:
        mark = Mark.of(pid)
    except OSError:
        return None
    return mark if mark.alive() else None


def described(pid: int, run: Run) -> Leftover:
    return Leftover("process", f"{pid} ({command(pid)[:200]})", test_of(environment(pid), run))


def test_of(variables: Sequence[bytes], run: Run) -> str:
    """The test that started the process, or whose temporary folder it uses; "" if neither is known."""
    for variable in variables:
        name, _, value = variable.decode(errors="replace").partition("=")
        if name == "PYTEST_CURRENT_TEST":
            return value.rpartition(" ")[0]
    text = b"\0".join(variables).decode(errors="replace")
    folder = re.search(rf"{re.escape(str(run.folder))}/p/(?:popen-\w+/)?([^/\0:]+)", text)
    return folder[1] if folder else ""


def links(run: Run) -> list[str]:
    """In the network of the run, if that is ours; another one is gone with its processes."""
    if not run.namespace or network.number("self") != run.namespace:
        return []
    return sorted(set(network.links()) - set(run.links))


def mounts(run: Run) -> list[Path]:
    """Deepest first."""
    places = (run.folder, *(base() / name for name in clusters(run)))
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(unescaped(line.split()[4])) for line in lines]
    return sorted((point for point in points if any(map(point.is_relative_to, places))), reverse=True)


def unescaped(text: str) -> str:
    """Spaces and the like are octal numbers in /proc."""
    return re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), text)


def groups(run: Run) -> list[Path]:
    if not cgroups.TOP.exists():
        return []
    return [group for top in cgroups.hierarchies() for group in top.glob(f"grus-{run.name}-*/")]


def remove(run: Run) -> None:
    """All that `found` shows, then the folder, then the record."""
    for name in clusters(run):
        subprocess.run(
            [sys.executable, "-m", "tools.kubernetes", "down", "--name", name],
            cwd=ROOT,
            capture_output=True,
            check=False,  # what it could not remove is found again
        )
    for _ in range(ROUNDS):
        if not (marks := processes(run)):
            break
        end(marks)
    for name in links(run):
        subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
    for point in mounts(run):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
    if groups(run):
        cgroups.remove(f"grus-{run.name}-")
    if not mounts(run):  # never delete what is mounted there
        shutil.rmtree(run.folder, onerror=allowed)
    if not found(run) and not run.folder.exists():
        run.file.unlink(missing_ok=True)


def allowed(act: Callable[[str], object], path: str, error: object) -> None:
    """Try again in a folder that a test has closed; what cannot be removed stays and is found."""
    try:
        Path(path).parent.chmod(0o700)
        if act is not os.unlink and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            act(path)
    except OSError:
        return


def remaining(run: Run) -> Iterator[Leftover]:
    """What `remove` could not remove."""
    yield from found(run)
    if run.folder.exists():
        yield Leftover("folder", str(run.folder))
